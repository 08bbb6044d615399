"""A name for the code that makes a number: all of firstlight that a module reaches by its imports.

Words do not count: docstrings, comments and error messages may change without making a stored result old. Neither do
parts that cannot move a number (figures, progress bars), nor, within a study, its rules, its settings (they are in
the run's own name) and its figure.
"""

import ast
import hashlib
import pkgutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from firstlight.core.environment import package_versions

ROOT = "firstlight"
SILENT = (
    "firstlight.figures",
    "firstlight.report",
    "firstlight.cli",
    "firstlight.core.errors",
    "firstlight.core.progress",
    "firstlight.core.environment",
    "firstlight.core.fingerprint",
    "firstlight.core.registry",
    "firstlight.core.tables",
    "firstlight.core.version",
    "firstlight.core.archives",  # what is fetched is checked by its checksum
    "firstlight.core.fetching",
    "firstlight.core.files",
    "firstlight.core.foreign",  # refuses bytes or passes them on unchanged
    "firstlight.core.interrupts",  # ends a run; it cannot change one that finished
    "firstlight.core.tensor_files",  # what is read back equals what was written, which is tested
    "firstlight.core.parallel",  # outcomes do not depend on how many tasks run side by side, which is tested
    "firstlight.fetching",
    "firstlight.store",
    "firstlight.training.checkpoint",  # a resumed training ends with the same bits, which is tested
    "firstlight.estimators.saving",
    "firstlight.data.cache",
    "firstlight.claims.catalogue",
    "firstlight.claims.conditions",
    "firstlight.claims.evidence",
    "firstlight.claims.overview",
    "firstlight.claims.quantities",
    "firstlight.claims.rules",
    "firstlight.claims.study",
    "firstlight.claims.sweep",
)
"""Modules and packages whose code cannot change a measured number."""

REGISTRIES = {
    "firstlight.models.building": ("firstlight.models", "register_model"),
    "firstlight.data.entries": ("firstlight.data.sets", "register_dataset"),
}
"""Modules that find things by name at run time: reaching one reaches all members of a package that register there."""

NOT_HASHED = {"rules", "scales", "figure", "n_seeds", "unit", "title", "axis"}
"""Parts of a study that judge or draw what it measured."""


def code_fingerprint(*modules: str) -> str:
    """Return sixteen hexadecimal digits for the code that `modules` reach, and the libraries it runs on.

    Examples
    --------
    >>> code_fingerprint("firstlight.maths.psd") == code_fingerprint("firstlight.maths.pca")
    False
    """
    reached = sorted(set().union(*(reached_modules(module) for module in modules)))
    body = [f"{name} {_module_hash(name)}" for name in reached]
    body += [f"{name} {version}" for name, version in sorted(package_versions().items())]
    return hashlib.sha256("\n".join(body).encode()).hexdigest()[:16]


@cache
def reached_modules(module: str) -> frozenset[str]:
    """Modules of firstlight that `module` imports, directly or not, itself included."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in reached or _is_silent(name):
            continue
        reached.add(name)
        waiting += _imports(name)
        if name in REGISTRIES:
            waiting += _members(name)
    return frozenset(reached)


@cache
def _members(registry: str) -> tuple[str, ...]:
    """Modules of a package that mention the function which registers them."""
    package, function = REGISTRIES[registry]
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    members = (f"{package}.{item.name}" for item in pkgutil.iter_modules(folders) if not item.ispkg)
    return tuple(member for member in members if member != registry and _mentions(member, function))


def _mentions(module: str, name: str) -> bool:
    tree = _source(module)
    return tree is not None and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(tree))


def _is_silent(name: str) -> bool:
    return any(name == quiet or name.startswith(f"{quiet}.") for quiet in SILENT)


@cache
def _source(name: str) -> ast.Module | None:
    spec = find_spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Modules of firstlight that a file names in its imports, wherever they stand in it."""
    tree = _source(name)
    if tree is None:
        return ()
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                named |= _used(_defining(node.module, alias.name), alias.asname or alias.name, tree)
    own = {item for item in named if item.split(".")[0] == ROOT and item != ROOT}
    return tuple(sorted(item for item in own if _is_module(item)))


def _used(target: str, bound: str, tree: ast.Module) -> set[str]:
    """What a file reaches through the name `bound`: of a package, only the parts whose names it mentions."""
    if target.split(".")[0] != ROOT or not _is_package(target):
        return {target}
    mentions = sum(isinstance(node, ast.Name) and node.id == bound for node in ast.walk(tree))
    parts = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == bound
    ]
    if len(parts) < mentions or not parts:  # the package itself is handed on: any part of it may be used
        return {target}
    return {_defining(target, part) for part in parts}


@cache
def _defining(module: str, name: str) -> str:
    """The module that ``from module import name`` really reaches: a submodule, or what a package re-exports."""
    if module.split(".")[0] != ROOT:
        return module
    if _is_module(f"{module}.{name}"):
        return f"{module}.{name}"
    tree = _source(module)
    for node in tree.body if tree is not None and _is_package(module) else ():
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and name in {a.asname or a.name for a in node.names}
        ):
            return _defining(node.module, name)
    return module


@cache
def _is_package(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


@cache
def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module, not a package: `name` is a function or a class
        return False


@cache
def _module_hash(name: str) -> str:
    tree = _source.__wrapped__(name)  # a tree of its own: stripping it would change the cached one
    if tree is None:
        return ""
    return hashlib.sha256(ast.dump(_WithoutWords().visit(tree)).encode()).hexdigest()


class _WithoutWords(ast.NodeTransformer):
    """Removes docstrings and error messages everywhere, and from studies what judges or draws."""

    def _stripped(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        body = node.body  # type: ignore[attr-defined]
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
        return node

    visit_Module = visit_FunctionDef = visit_AsyncFunctionDef = _stripped

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Keep which error is raised: what catches it may go on and measure something."""
        if isinstance(node.exc, ast.Call):
            node.exc.args, node.exc.keywords = [], []
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if any(isinstance(d, ast.Name) and d.id == "study" for d in node.decorator_list):
            node.body = [item for item in node.body if _assigned(item) not in NOT_HASHED] or [ast.Pass()]
        return self._stripped(node)


def _assigned(item: ast.stmt) -> str:
    """Name that a statement of a class body defines."""
    if isinstance(item, ast.FunctionDef):
        return item.name
    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
        return item.target.id
    if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
        return item.targets[0].id
    return ""
