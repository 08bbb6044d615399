"""The API reference, read from the packages: adding a public name needs no edit of a page.

A line ``{reference} firstlight.maths`` in a fence of its own becomes one section for each file behind the package, with
every name that the package exports; of a package that exports nothing, such as a question, every file is shown.
``{top-level}`` becomes the promised names, those that ``import firstlight`` offers, each with its example.
A public name without a docstring and a promised one without an example stop the build. Nothing here needs Sphinx, so
the tests read the same text.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

FENCE = re.compile(r"^```\{(reference|top-level)\}[ ]*(\S*)\n```$", re.MULTILINE)
ERRATUM = re.compile(r"\bE-\d\d\b")
MATHS = re.compile(r":math:`([^`]*)`")
ROLE = re.compile(r":(?!math)\w+:`~?(?:\w+\.)*(\w+)`")
FOOTNOTE = re.compile(r"^\.\. \[\d+\] ")


def expand(page: str) -> str:
    """Replace the fences of a page by the Markdown they stand for."""
    return FENCE.sub(lambda fence: top_level() if fence[1] == "top-level" else reference(fence[2]), page)


def reference(package: str) -> str:
    """Return the sections of a package, one per file that defines what it exports."""
    module = importlib.import_module(package)
    sections, seen, text = [*_sections(module)], set(), []
    is_folder = hasattr(module, "__path__") and not hasattr(module, "__all__")
    level = "###" if is_folder else "##"
    if is_folder:  # the question that its files answer
        text += [f"## {_about(module).rstrip('.')}", _fence([f".. py:module:: {package}"])]
    elif len(sections) > 1:
        text.append(_fence([f".. py:module:: {package}", "", _about(module)]))
        seen.add(package)
    for home, origin, names in sections:
        # Sphinx takes `py:module` once for each module; later sections only say where they are.
        where = f".. py:{'currentmodule' if home in seen else 'module'}:: {home}"
        seen.add(home)
        summary, _, about = _about(origin).partition("\n")
        own_page = home == package and hasattr(module, "__all__")  # then the title of the page says it
        path = "" if own_page else f"From `{home}`."
        entries = [line for name in names for line in ("", *_entry(origin, name))]
        text += [f"{level} {summary.rstrip('.')}", path, _fence([where, "", about.strip(), *entries])]
    return "\n\n".join(part for part in text if part) + "\n"


def top_level() -> str:
    """Return the promised names: a table of what each does, then each with its parameters and its example."""
    import firstlight

    names = sorted((name for name in firstlight.__all__ if not name.startswith("__")), key=str.lower)
    rows, entries = ["| name | what it is |", "|---|---|"], []
    for name in names:
        thing = getattr(firstlight, name)
        text = inspect.getdoc(thing) or ""
        if ">>>" not in text:
            raise LookupError(
                f"firstlight.{name} is promised and has no example. Write one in its docstring."
            )
        summary = ROLE.sub(r"`\1`", text.partition("\n\n")[0].replace("\n", " "))
        summary = MATHS.sub(r"$\1$", summary)
        rows.append(f"| [`{name}`](#{name.lower()}) | {summary} |")
        home, (directive, *_) = _home(thing), _entry(firstlight, name)
        # Sphinx indexes a class under the file that defines it, and takes it there only once
        indexed = ["   :no-index:"] if isinstance(thing, type) else []
        entries += [
            f"## {name}",
            _fence([".. py:currentmodule:: firstlight", "", directive, *indexed]),
            "" if "._" in home else f"Part of {{py:mod}}`{home}`{', with its methods' if indexed else ''}.",
        ]
    opening = _fence([".. py:module:: firstlight"])
    return "\n\n".join(part for part in (opening, "\n".join(rows), *entries) if part) + "\n"


def _home(thing: Any) -> str:
    """Return the outermost package below the top whose exports hold a thing, else the file that defines it."""
    parts = thing.__module__.split(".")
    for end in range(2, len(parts) + 1):
        package = importlib.import_module(".".join(parts[:end]))
        if thing.__name__ in getattr(package, "__all__", ()):
            return package.__name__
    return thing.__module__


def _sections(module: ModuleType) -> Iterator[tuple[str, ModuleType, list[str]]]:
    """Yield where names are imported from, the file that defines them, and the names."""
    if not hasattr(module, "__all__"):  # files of which everything public counts
        for file in _files(module):
            if names := _own_names(file):
                yield file.__name__, file, names
        return
    by_file: dict[str, list[str]] = {}
    for name in module.__all__:
        if isinstance(getattr(module, name), ModuleType):
            continue
        by_file.setdefault(_origin(module, name), []).append(name)
    for origin in sorted(by_file):
        yield module.__name__, importlib.import_module(origin), by_file[origin]
    for inner in _submodules(module):
        rest = [name for name in _own_names(inner) if getattr(module, name, None) is not getattr(inner, name)]
        if rest:
            yield inner.__name__, inner, rest


def _files(module: ModuleType) -> list[ModuleType]:
    """Return the files of a folder without what reads options of the command line, or the one file itself."""
    if not hasattr(module, "__path__"):
        return [module]
    found = [info.name for info in pkgutil.iter_modules(module.__path__) if not info.ispkg]
    return [
        importlib.import_module(f"{module.__name__}.{name}") for name in found if not name.endswith("command")
    ]


def _submodules(module: ModuleType) -> list[ModuleType]:
    exported = [getattr(module, name) for name in getattr(module, "__all__", ())]
    return [thing for thing in exported if isinstance(thing, ModuleType)]


def _own_names(module: ModuleType) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and callable(thing)
        and getattr(thing, "__module__", "") == module.__name__
    ]


def _origin(module: ModuleType, name: str) -> str:
    """Return the file that defines an exported name. Constants do not know theirs; the import line does."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return node.module
    return module.__name__


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))


def _about(module: ModuleType) -> str:
    """Return the docstring of a module without headings, which a page has of its own."""
    text = re.sub(r"^References\n-+\n", "", inspect.getdoc(module) or "", flags=re.MULTILINE)
    return "\n".join(_tidied(text.splitlines()))


def _fence(lines: list[str]) -> str:
    return "\n".join(["```{eval-rst}", *lines, "```"])


def _entry(origin: ModuleType, name: str) -> list[str]:
    thing = getattr(origin, name)
    text = (
        inspect.getdoc(thing) if callable(thing) and hasattr(thing, "__name__") else _constant(origin, name)
    )
    if not text or text.startswith(
        f"{name}("
    ):  # dataclasses write their signature where a docstring is missing
        raise LookupError(f"{origin.__name__}.{name} is public and has no docstring. Write one.")
    if isinstance(thing, type):
        return [f".. autoclass:: {name}", "   :members:"]
    if inspect.isroutine(thing):
        return [f".. autofunction:: {name}"]
    return [f".. py:data:: {name}", "", *(f"   {line}" for line in text.splitlines())]


def _constant(origin: ModuleType, name: str) -> str:
    """Return the string below the assignment of a constant."""
    body = _tree(origin).body
    for node, after in pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return inspect.cleandoc(str(after.value.value))
    return ""


def _tidied(lines: list[str]) -> list[str]:
    # Footnotes number a whole page, so that [1] of two docstrings would clash; nothing refers to them by number.
    return [ERRATUM.sub(_link, FOOTNOTE.sub("- ", line)) for line in lines]


def _link(erratum: re.Match[str]) -> str:
    return f":ref:`{erratum[0]} <{erratum[0].lower()}>`"


def _process(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = _tidied(lines)


def setup(app: Any) -> dict[str, Any]:
    """Register what changes pages and docstrings as they are read."""
    app.connect("source-read", lambda _app, _name, source: source.__setitem__(0, expand(source[0])))
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
