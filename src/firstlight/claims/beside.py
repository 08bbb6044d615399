"""Does changed code still give the numbers of the code that made a ledger? Run both on this machine."""

import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from firstlight.claims.evidence import Evidence
from firstlight.claims.ledger import Entry, rounded
from firstlight.claims.reproduce import run_study
from firstlight.claims.rules import Rule
from firstlight.claims.stale import CODE, staleness
from firstlight.claims.study import Study, study_of
from firstlight.claims.verify import Verification
from firstlight.core.environment import package_versions
from firstlight.core.errors import InvalidInput
from firstlight.store import Run, RunSpec, Store

# what the older code is asked to do: nothing but what its public functions offered when it was the present code
_DRIVER = """
import json, sys
from firstlight.claims import reproduce, study_of
tasks, codes = json.load(sys.stdin), {}
for i, (claim, scale, seed) in enumerate(tasks):
    print(f"[{i + 1}/{len(tasks)}] {claim}, {scale}, the older code", file=sys.stderr)
    reproduce(claim, scale=scale, seed=seed, n_seeds=1)
    codes[claim] = study_of(claim).code()
print(json.dumps(codes))
"""

_DECIDES_BITS = ("system", "processor", "cores", *package_versions())


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Task:
    """One seed of one study, to be run by both codes."""

    study: type[Study]
    scale: str
    seed: int
    entries: tuple[Entry, ...]

    def spec(self, code: str) -> RunSpec:
        config = dataclasses.asdict(self.study.config(self.scale, seed=self.seed))
        return RunSpec(what=f"study:{self.study.name}", config=config, code=code)


def verify_beside(
    entries: Iterable[Entry],
    revision: str,
    *,
    seconds: float = math.inf,
    store: Store | None = None,
    listen: Callable[[str, int, int], None] = lambda name, index, total: None,
) -> list[Verification]:
    """Run the first seed of every entry whose code has changed, with the code of `revision` and with the present one.

    On another processor no chaotic training gives the recorded digits again, whatever the code. What can be shown
    there is that both codes give the same numbers, in the digits that a ledger holds. The entry says whether they
    share their last bits, too.

    Parameters
    ----------
    entries : iterable of Entry
        Of a ledger. Those that are fresh, or stale because of their rule or settings, are left out.
    revision : str
        A commit of this repository whose code made the entries, or verified them; another code is refused entry by
        entry.
    seconds : float, default inf
        Studies whose recorded seeds took more CPU seconds than this are run at smoke scale.
    store : Store, optional
        Where finished runs are kept; by default the user's. Names of runs cover their code, so both codes share it.
    listen : callable
        Told the name, index and number of studies before the present code runs each of them.
    """
    store = store or Store()
    tasks = _tasks([entry for entry in entries if entry.runs and staleness(entry) == CODE], seconds)
    with _checked_out(revision) as (folder, commit):
        codes = _run_older(folder, [(t.entries[0].claim, t.scale, t.seed) for t in tasks], store)
    results = []
    for index, task in enumerate(tasks):
        listen(task.study.name, index, len(tasks))
        run = run_study(task.study, scale=task.scale, store=store, seed=task.seed)
        older = task.spec(codes[task.entries[0].claim])
        results += [_verification(entry, task, run, older, store, commit) for entry in task.entries]
    return results


def _tasks(entries: Sequence[Entry], seconds: float) -> list[_Task]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.study, entry.scale), []).append(entry)
    tasks = []
    for (_, scale), group in groups.items():
        study = study_of(group[0].claim)
        assert study is not None  # `staleness` gave another reason otherwise
        cost = max(entry.cpu_seconds for entry in group) / len(group[0].seeds)
        where = scale if cost <= seconds else "smoke"
        tasks.append(_Task(study=study, scale=where, seed=group[0].seeds[0], entries=tuple(group)))
    return tasks


def _verification(
    entry: Entry, task: _Task, run: Run, older: RunSpec, store: Store, commit: str
) -> Verification:
    if older.code not in (entry.code, entry.verified.get("code")) or older not in store:
        why = f"commit {commit} has other code or settings than those that made the entry"
        return Verification(entry=entry, differences=(why,))
    before = store.load(older.id)
    old, new = (_numbers(task.study.rule_of(entry.claim), one, task.seed) for one in (before, run))
    differences = _differences(old, new)
    if any(before.environment.get(name) != run.environment.get(name) for name in _DECIDES_BITS):
        differences = (f"the stored run {before.id} was made on another machine", *differences)
    if differences:
        return Verification(entry=entry, differences=differences)
    verified = {
        "code": run.spec.code,
        "commit": run.commit,
        "seed": task.seed,
        "scale": task.scale,
        "beside": commit,
        "same": "bits" if all(_same(old[name], new[name]) for name in old) else "digits",
    }
    return Verification(entry=dataclasses.replace(entry, verified=verified, stale=""), differences=())


def _numbers(rule: Rule, run: Run, seed: int) -> dict[str, float]:
    """Every number of a run that a rule speaks of."""
    estimates = Evidence.of({seed: run.result}).estimates([*rule.names, *rule.null_names])
    return {name: estimate.mean for name, estimate in estimates.items()}


def _differences(old: Mapping[str, float], new: Mapping[str, float]) -> tuple[str, ...]:
    """Numbers that two runs do not share in the digits of a ledger."""
    return tuple(
        f"{name}: {old[name]!r} before, {new[name]!r} now"
        if name in old and name in new
        else f"{name}: measured by one code only"
        for name in sorted(old.keys() | new.keys())
        if name not in old or name not in new or rounded(old[name]) != rounded(new[name])
    )


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@contextmanager
def _checked_out(revision: str) -> Iterator[tuple[Path, str]]:
    """Lay out the files of a commit in a folder that is removed afterwards; yields it and the commit's name."""
    here = Path(__file__).resolve().parent
    commit = _git(here, "rev-parse", "--verify", "--short=12", "--end-of-options", f"{revision}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="firstlight-") as temporary:
        folder = Path(temporary) / "older"
        _git(here, "worktree", "add", "--detach", str(folder), commit)
        try:
            yield folder, commit
        finally:
            _git(here, "worktree", "remove", "--force", str(folder))


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise InvalidInput("`--beside` needs git, which is not installed.") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise InvalidInput(
            f"`--beside` must name a commit of the repository that firstlight runs from; git says: {reason[0]}"
        ) from error
    return done.stdout.strip()


def _run_older(folder: Path, tasks: Sequence[tuple[str, str, int]], store: Store) -> dict[str, str]:
    """Run claims with the code in a folder, and return the fingerprint of each one's study there."""
    if not tasks:
        return {}
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "FIRSTLIGHT_RUNS": str(store.root)}
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps(tasks), env=environment, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise InvalidInput("the code of `--beside` could not run the studies; what it said stands above.")
    codes: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return codes
