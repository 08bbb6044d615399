"""What every study measures at smoke scale, kept in tests/numbers: one file a theme, one line a number.

A line says the number and by how much it may differ on another processor. `python tests/numbers/renew.py` writes it.
"""

import json
import math
from pathlib import Path

FOLDER = Path(__file__).parent / "numbers"


def numbers_of(evidence):
    """Every number of one seed, by the name of the quantity and the point at which it was measured."""
    return {
        name if point is None else f"{name}, {point}": float(row[0])
        for name, rows in evidence.values.items()
        for point, row in rows.items()
    }


def kept(theme):
    """Number and tolerance by study and name, as the file of a theme says."""
    path = FOLDER / f"{theme}.json"
    studies = json.loads(path.read_text()) if path.exists() else {}
    return {study: {name: _read(line) for name, line in rows.items()} for study, rows in studies.items()}


def keep(theme, studies):
    """Write the file of a theme."""
    lines = {
        study: {
            name: f"{number:.10g} ± {tolerance:.0e}" for name, (number, tolerance) in sorted(rows.items())
        }
        for study, rows in sorted(studies.items())
    }
    (FOLDER / f"{theme}.json").write_text(json.dumps(lines, indent=1, ensure_ascii=False) + "\n")


def moved(study, evidence):
    """A line for each number of a study that is not what its file says; empty if all are."""
    old, new = kept(study.theme).get(study.name, {}), numbers_of(evidence)
    words = []
    for name in sorted(old.keys() | new.keys()):
        place = f'tests/numbers/{study.theme}.json, "{study.name}", "{name}"'
        if name not in new:
            words.append(f"{place}: no longer measured")
        elif name not in old:
            words.append(f"{place}: not recorded; it is {new[name]:.10g}")
        elif not is_close(new[name], *old[name]):
            was, tolerance = old[name]
            words.append(
                f"{place}: was {was:.10g}, is {new[name]:.10g}, differs by {abs(new[name] - was):.2g}; "
                f"{tolerance:.0e} is allowed"
            )
    return words


def is_close(new, old, tolerance):
    """Whether a number is the recorded one, as far as another processor can tell."""
    if not (math.isfinite(new) and math.isfinite(old)):
        return new == old or (math.isnan(new) and math.isnan(old))
    return abs(new - old) <= tolerance


def _read(line):
    number, tolerance = line.split(" ± ")
    return float(number), float(tolerance)
