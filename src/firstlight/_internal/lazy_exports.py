"""Packages that import what they export when it is first asked for, so that a question imports only what it needs."""

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy_exports(package: str) -> None:
    """Let a package offer the names that its `if TYPE_CHECKING:` block imports, each imported at its first use.

    The block is read from the source, so names stand once: type checkers, `__all__` and users see the same. A name
    wins over a module of the same name, as it does after a plain ``from package.ansatz import ansatz``.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package, from its ``__init__.py``.
    """
    module = sys.modules[package]
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def exported(home: str, name: str) -> property:
        def value(_: ModuleType) -> Any:
            return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

        # importing the submodule sets it as an attribute of the package, which must not hide the name
        return property(value, lambda _, submodule: None)

    # properties of the class come before attributes of the module
    names = {name: exported(home, original) for name, (home, original) in homes.items()}
    vars(module)["__all__"] = sorted(homes)
    module.__class__ = type("LazyPackage", (ModuleType,), {**names, "__dir__": lambda self: sorted(homes)})
