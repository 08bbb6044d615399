"""The base of every result: a frozen dataclass that shows itself."""

import dataclasses
import html
import itertools
from importlib import import_module
from typing import Any, ClassVar

import torch

from firstlight._internal.errors import InvalidInput
from firstlight._internal.memory_layout import as_stored
from firstlight._internal.optional import optional_module
from firstlight._internal.table import Row, rows_of

DEEPEST = 4  # results inside results that a notebook unfolds
MOST_ITEMS = 40
WIDTH = 110  # of a printed line


class Result:
    """Mixin for frozen dataclasses of tensors, numbers, words and nested results.

    Subclasses are declared as ``@dataclass(frozen=True, kw_only=True)``. The store saves and loads
    them; printed they are a line or a small table, in notebooks a table.

    A result holds what the store would give back: when it is made, ``memory_layout.as_stored`` brings
    its tensors to the CPU and into the layout of new ones, so that what is computed from it has the same bits
    before it is stored and after. A subclass with a `__post_init__` of its own calls ``super().__post_init__()``.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign] # else the dataclass would write one with every number

    @classmethod
    def kinds(cls) -> "dict[str, type[Result]]":
        """Subclasses by name, as far as they are imported. Stored results say their class by this name."""
        found: dict[str, type[Result]] = {}
        for kind in cls.__subclasses__():
            found |= {kind.__name__: kind, **kind.kinds()}
        return found

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if (stored := as_stored(value)) is not value:
                object.__setattr__(self, f.name, stored)  # frozen dataclasses have no other way

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values: tensors become nested lists."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def _rows(self) -> list[Row]:
        """Rows of the table; a result with several gives the one that people want here."""
        return rows_of(self)

    def to_frame(self) -> Any:
        """Return the numbers as a pandas data frame in long form; needs the extra ``plot``.

        One row for each thing that was measured (a layer, a component, an image, a round) and one column for each
        number; the draws of a null become their mean, lowest and highest. Rows are counted from 0.
        """
        if not (rows := self._rows()):
            raise InvalidInput(
                f"{type(self).__name__} is no single table. `to_dict()` gives all its numbers."
            )
        return optional_module("pandas", extra="plot", purpose="`to_frame`").DataFrame(rows)

    def figure(self, what: str = "") -> Any:
        """Return a figure as pages show it; notebooks draw it, :meth:`Figure.save` writes it.

        Parameters
        ----------
        what : str, default ''
            Which one, for results that have several; a name that there is not lists them.
        """
        # a measure never draws: who draws what is known one layer up, and looked up when it is asked for
        return import_module("firstlight.questions.figures").figure_of(self, what)

    def __repr__(self) -> str:
        name = type(self).__name__
        shown = {f.name: brief(getattr(self, f.name)) for f in dataclasses.fields(self) if f.repr}
        line = f"{name}({', '.join(f'{field}={text}' for field, text in shown.items())})"
        if len(line) <= WIDTH:
            return line
        width = max(map(len, shown))
        return "\n".join([name, *(f"  {field:{width}}  {text}"[:WIDTH] for field, text in shown.items())])

    def _repr_html_(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return _table(type(self).__name__, fields, depth=0)


def plain(value: Any) -> Any:
    """Plain Python values for anything a result may hold."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, Result):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def _table(title: str, fields: dict[str, Any], *, depth: int) -> str:
    """Names and values, results inside results folded; every word is escaped, nothing runs."""
    rows = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(str(name))}</th>"
        f"<td style='text-align:left'>{_cell(value, depth)}</td></tr>"
        for name, value in fields.items()
    )
    return f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>{rows}</table>"


def _cell(value: Any, depth: int) -> str:
    if depth < DEEPEST:
        items: dict[str, Any] = {}
        if isinstance(value, Result):
            items = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        elif isinstance(value, dict):
            items = value
        elif isinstance(value, list | tuple) and any(isinstance(v, Result) for v in value):
            items = {str(i): v for i, v in enumerate(value[:MOST_ITEMS])}
        if items:
            name = type(value).__name__ if isinstance(value, Result) else f"{len(value)} entries"
            inside = _table("", dict(list(items.items())[:MOST_ITEMS]), depth=depth + 1)
            return f"<details><summary>{html.escape(name)}</summary>{inside}</details>"
    return html.escape(brief(value))


def brief(value: Any) -> str:
    """Short text for a value, whatever its size."""
    if isinstance(value, torch.Tensor):
        if value.numel() <= 8:
            return ", ".join(f"{v:.4g}" for v in value.flatten().tolist())
        numbers = value.abs() if value.is_complex() else value
        low, high = numbers.min().item(), numbers.max().item()
        size = "size " if value.is_complex() else ""
        return f"{tuple(value.shape)} {size}from {low:.4g} to {high:.4g}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Result):
        return type(value).__name__
    if isinstance(value, dict | list | tuple) and value:
        text = _few(value)
        return text if len(text) <= 120 else f"{len(value)} entries, {text[:100]}..."
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else text[:117] + "..."


def _few(value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> str:
    """The first entries of a container in short; names of results and shapes of tensors, never their numbers."""
    entries = itertools.islice(value.items() if isinstance(value, dict) else enumerate(value), MOST_ITEMS)
    words = {key: repr(entry) if isinstance(entry, str) else brief(entry) for key, entry in entries}
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {word}" for key, word in words.items()) + "}"
    return ", ".join(words.values()).join("()" if isinstance(value, tuple) else "[]")
