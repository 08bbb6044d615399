"""Named things: data sets, models, studies. A decorator fills the registry, tests run over it."""

from collections.abc import Callable, Iterator
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

    Examples
    --------
    >>> shapes: Registry[int] = Registry("shape")
    >>> shapes.add("square", 4)
    4
    >>> shapes["square"]
    4
    """

    def __init__(self, kind: str, *, hint: str = "") -> None:
        self.kind = kind
        self.hint = hint
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Register `entry` under `name`, which must be new."""
        assert name not in self._entries, f"{self.kind} {name!r} is registered twice"
        self._entries[name] = entry
        return entry

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers what it decorates."""
        return lambda entry: self.add(name, entry)

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise unknown_name(self.kind, name, self._entries, hint=self.hint)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
