"""The public names of firstlight with their signatures, as written down in api_surface.json.

A name that disappears or a signature that changes breaks somebody's code: it fails a test until
``python tests/api_surface.py`` writes the file again, and belongs in the changelog. A new name breaks nobody's code
and needs no edit; it is guarded from the next time the file is written.
"""

import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import firstlight

FILE = Path(__file__).with_suffix(".json")
INNER = ("firstlight.data.sets", "firstlight.data.formats", "firstlight.cli")


def surface() -> dict[str, str]:
    """Public names, each with what it is: a signature, or a kind."""
    found: dict[str, str] = {}
    for package in _packages():
        exported = [(name, getattr(package, name)) for name in package.__all__]
        for name, thing in exported:
            if isinstance(thing, ModuleType):
                for inner, part in _defined_in(thing):
                    if getattr(package, inner, None) is not part:
                        found[f"{thing.__name__}.{inner}"] = described(part)
            else:
                found[f"{package.__name__}.{name}"] = described(thing)
    return dict(sorted(found.items()))


def described(thing: object) -> str:
    """Return the signature of anything callable, the type of anything else."""
    if not callable(thing) or not hasattr(thing, "__name__"):
        return type(thing).__name__
    word = "class " if isinstance(thing, type) else ""
    try:
        signature = str(inspect.signature(thing))
    except ValueError:  # exceptions and enums have none
        return word.strip()
    signature = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", signature)
    return word + re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", signature)


def _packages() -> list[ModuleType]:
    names = [m.name for m in pkgutil.walk_packages(firstlight.__path__, "firstlight.") if m.ispkg]
    packages = [
        importlib.import_module(name) for name in ["firstlight", *names] if not name.startswith(INNER)
    ]
    return [package for package in packages if hasattr(package, "__all__")]


def _defined_in(module: ModuleType) -> list[tuple[str, object]]:
    return [
        (name, thing)
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and callable(thing)
        and getattr(thing, "__module__", "") == module.__name__
    ]


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
