"""The promised names, those that `import firstlight` offers, with their signatures as written down in api_surface.json.

A name that disappears or a signature that changes breaks somebody's code: it fails a test until
``python tests/api_surface.py`` writes the file again, and belongs in the changelog. A new name breaks nobody's code
and needs no edit; it is guarded from the next time the file is written. Other names are documented, not promised.
"""

import inspect
import json
import re
from pathlib import Path

import firstlight

FILE = Path(__file__).with_suffix(".json")


def surface() -> dict[str, str]:
    """Promised names, each with what it is: a signature, or a kind."""
    return {name: described(getattr(firstlight, name)) for name in sorted(firstlight.__all__)}


def described(thing: object) -> str:
    """Return the signature of anything callable, the type of anything else."""
    if not callable(thing) or not hasattr(thing, "__name__"):
        return type(thing).__name__
    word = "class " if isinstance(thing, type) else ""
    signature = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", str(inspect.signature(thing)))
    return word + re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", signature)


def written_down() -> dict[str, str]:
    """Read the surface that was last agreed upon."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def broken_by(now: dict[str, str], before: dict[str, str]) -> tuple[list[str], list[str]]:
    """Names that are gone, and signatures that changed, in words."""
    gone = sorted(before.keys() - now.keys())
    changed = [
        f"{name}\n    was {before[name]}\n    is  {now[name]}"
        for name in sorted(before.keys() & now.keys())
        if before[name] != now[name]
    ]
    return gone, changed


if __name__ == "__main__":
    FILE.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"Wrote {FILE.name}: {len(surface())} names.")
