"""Named things: data sets, models, studies. A decorator fills the registry, tests run over it."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

from firstlight._internal.errors import unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """A dictionary that suggests the nearest entry when a name is unknown.

    Parameters
    ----------
    kind : str
        What an entry is called in error messages.
    hint : str, default ''
        What the error message advises; by default it lists all names.
    package : str, default ''
        Package whose modules register the entries. They are imported when somebody first looks, not before.
    modules : sequence of str, default ()
        Names of those modules, if not all of the package do.

    Examples
    --------
    >>> shapes: Registry[int] = Registry("shape")
    >>> shapes.add("square", 4)
    4
    >>> shapes["square"]
    4
    """

    def __init__(self, kind: str, *, hint: str = "", package: str = "", modules: Sequence[str] = ()) -> None:
        self.kind = kind
        self.hint = hint
        self._package, self._modules = package, modules
        self._own_entries: dict[str, T] = {}

    def _files(self) -> list[str]:
        if not self._package:
            return []
        return list(self._modules) or [
            file.name for file in iter_modules(import_module(self._package).__path__)
        ]

    @property
    def _entries(self) -> dict[str, T]:
        for name in self._files():
            import_module(f"{self._package}.{name}")
        self._package = ""  # nothing is left to be imported
        return self._own_entries

    def add(self, name: str, entry: T) -> T:
        """Register `entry` under `name`, which must be new."""
        assert name not in self._own_entries, f"{self.kind} {name!r} is registered twice"
        self._own_entries[name] = entry
        return entry

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers what it decorates."""
        return lambda entry: self.add(name, entry)

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise unknown_name(self.kind, name, self._entries, hint=self.hint)
        return self._own_entries[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._own_entries and name in self._files():
            import_module(
                f"{self._package}.{name}"
            )  # most entries are in the file of their name: no other is needed
        return name in self._own_entries or name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
