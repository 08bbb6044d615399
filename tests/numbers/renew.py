"""Write the numbers that studies measure at smoke scale: `python tests/numbers/renew.py [STUDY or THEME ...]`.

Every study runs as this processor and, by the switches of tests/portable.py, as three others. By how much a number
differs between them decides its tolerance. All studies take six minutes.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from firstlight._internal.store import Store
from portable import PROCESSORS, numpy_features
from reproduce.catalogue import THEMES, studies
from reproduce.run import run_seeds
from smoke_numbers import keep, kept, numbers_of

OTHERS = ("AVX2, two threads", "no vectors, one thread", "mixed, two threads")
MARGIN = 10  # three processors do not show the largest difference there is
LEAST = 1e-6  # relative; closed forms in float64 differ by less
ROUNDING = 1e-6  # numbers below are rounding errors: their first digit differs already
ZERO = 1e-13  # an error that is exactly zero here may not be elsewhere


def main(wanted):
    """Measure the named studies, all by default, and write their lines."""
    listed = studies()
    if unknown := set(wanted) - {*listed, *THEMES}:
        sys.exit(
            f"No study or theme is called {', '.join(sorted(unknown))}. `reproduce list` names all studies."
        )
    names = [name for name in listed if not wanted or name in wanted or listed[name].theme in wanted]
    here = measured_as(names, {}, None)
    others = [measured_as(names, *PROCESSORS[name]) for name in OTHERS]
    for theme in sorted({listed[name].theme for name in names}):
        lines = {study: rows for study, rows in kept(theme).items() if study in listed}
        for name in names:
            if listed[name].theme == theme:
                lines[name] = with_tolerances(here[name], [other[name] for other in others])
        keep(theme, lines)


def measured_as(names, switches, above):
    """Numbers of the studies, measured in a process that takes itself for another processor."""
    environment = {"FIRSTLIGHT_TEST_THREADS": "1", "FIRSTLIGHT_JOBS": "1", **os.environ, **switches}
    if features := numpy_features(above):
        environment["NPY_DISABLE_CPU_FEATURES"] = features
    with tempfile.TemporaryDirectory() as folder:
        environment["FIRSTLIGHT_RUNS"] = folder
        command = [sys.executable, __file__, "--print", *names]
        return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def with_tolerances(here, others):
    """Number and tolerance by name: what it moved by on other processors, or usually moves by in this study."""
    spread = {name: max(abs(other[name] - value) for other in others) for name, value in here.items()}
    moves = [spread[name] / abs(value) for name, value in here.items() if abs(value) > ROUNDING]
    usual = max(LEAST, MARGIN * statistics.median(moves)) if moves else LEAST
    return {
        name: (value, _rounded_up(max(MARGIN * spread[name], _usual_error(value, usual), ZERO)))
        for name, value in here.items()
    }


def _usual_error(value, usual):
    return abs(value) * (MARGIN if abs(value) <= ROUNDING else usual)


def _rounded_up(tolerance):
    """The least number of one digit that is not smaller."""
    unit = 10.0 ** math.floor(math.log10(tolerance))
    return math.ceil(tolerance / unit) * unit


def measure(names):
    """Run studies at smoke scale as the tests do, and return their numbers."""
    torch.set_num_threads(int(os.environ["FIRSTLIGHT_TEST_THREADS"]))
    found = {}
    for name in names:
        print(name, file=sys.stderr, flush=True)
        outcome = run_seeds(studies()[name], studies()[name].seeds("smoke"), scale="smoke", store=Store())
        assert not outcome.problem, f"{name}: {outcome.problem}"
        found[name] = numbers_of(outcome.evidence)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--print"]:
        print(json.dumps(measure(sys.argv[2:])))
    else:
        main(sys.argv[1:])
