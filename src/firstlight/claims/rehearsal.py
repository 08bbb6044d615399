"""Short runs of a study through its real code, each in a process of its own, so that time and memory are its own."""

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from firstlight.claims.study import STUDIES, Study
from firstlight.core.errors import DataUnavailable, Diverged, InvalidInput
from firstlight.core.parallel import cpu_seconds, single_thread

LIMIT_SECONDS = 480
"""CPU time of one short run; one that takes longer is no rehearsal."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one short run took."""

    cpu_seconds: float
    memory_bytes: float


def shortened(cfg: Any, settings: dict[str, Any]) -> Any:
    """Return settings with some of them replaced, by dotted name.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Inner:
    ...     steps: int = 100
    >>> @dataclass(frozen=True)
    ... class Outer:
    ...     base: Inner = Inner()
    >>> shortened(Outer(), {"base.steps": 3})
    Outer(base=Inner(steps=3))
    """
    for name, value in settings.items():
        first, _, rest = name.partition(".")
        inner = shortened(getattr(cfg, first), {rest: value}) if rest else value
        cfg = dataclasses.replace(cfg, **{first: inner})
    return cfg


def rehearse(study: type[Study], *, scale: str, settings: dict[str, Any]) -> Spent:
    """Run a study once with shortened settings, on one thread, with an empty store, and say what it took.

    Parameters
    ----------
    study : type of Study
        A registered one.
    scale : str
        Whose settings are shortened.
    settings : dict of str to object
        Plain values by dotted name; lists become tuples.
    """
    order = json.dumps({"study": study.name, "scale": scale, "settings": settings})
    with tempfile.TemporaryDirectory(prefix="firstlight-rehearsal-") as folder:
        alone = {"FIRSTLIGHT_RUNS": folder, "FIRSTLIGHT_JOBS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "firstlight.claims.rehearsal"]
        done = subprocess.run(
            command, input=order, capture_output=True, text=True, env={**os.environ, **alone}, check=False
        )
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        raise InvalidInput(
            f"A rehearsal of {study.name} must be short; it took more than {LIMIT_SECONDS} CPU seconds or too much "
            "memory."
        )
    if done.returncode:
        problem = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise InvalidInput(f"The rehearsal of {study.name} failed: {problem[0]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in answer:
        raise DataUnavailable(answer["unavailable"])
    return Spent(**answer)


def main() -> None:
    """Read one order from standard input, run it, and print what it took as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS + 5))
    order = json.loads(sys.stdin.read())
    study = STUDIES[order["study"]]
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in order["settings"].items()}
    cfg = shortened(study.config(order["scale"]), settings)
    start = cpu_seconds()
    try:
        with single_thread():
            study.run(cfg)
    except DataUnavailable as problem:
        print(json.dumps({"unavailable": str(problem)}))
        return
    except (Diverged, AssertionError) as problem:  # a short training need not end well to be timed
        print(f"{study.name}: {problem}", file=sys.stderr)
    unit = 1 if sys.platform == "darwin" else 1024
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(json.dumps({"cpu_seconds": cpu_seconds() - start, "memory_bytes": float(memory)}))


if __name__ == "__main__":
    import firstlight.claims  # noqa: F401 - registers the studies

    main()
