"""The table in a result: one row for each thing that was measured, one column for each number.

The shapes in the annotations of a result say what its rows are: ``Float[Tensor, " m"]`` has one number for each m.
"""

import dataclasses
import math
from typing import Any, get_args

import torch
from torch import Tensor

Row = dict[str, Any]

_AXES = {"m": "component", "n": "image", "nets": "network", "t": "moment"}  # what letters of the papers count


def rows_of(result: Any) -> list[Row]:
    """One row for each result inside a result, else along its only axis, else a single row.

    Empty if a result has several tables, or none.
    """
    values = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    inside = [some for value in values.values() if (some := _results(value))]
    axes = {axes[0] for axes in _axes(result).values() if len(axes) == 1 and not _is_null(axes[0])}
    if len(inside) + len(axes) > 1:
        return []
    if inside:
        return [{**({} if key is None else {"name": key}), **cells(entry)} for key, entry in inside[0]]
    if axes:
        return rows_along(result, axes.pop())
    return _pairs(result) or [row for row in (cells(result),) if row]


def cells(result: Any, prefix: str = "") -> Row:
    """Numbers and words of a result as one row: mean and range of the draws of a null, nothing of other tensors."""
    axes, row = _axes(result), {}
    for f in dataclasses.fields(result):
        value, name = getattr(result, f.name), f"{prefix}{f.name}"
        if _is_plain(value):
            # the middle of an interval has the name of the whole
            row[name if f.name != "value" or not prefix else prefix.removesuffix("_")] = value
        elif isinstance(value, Tensor) and all(map(_is_null, axes.get(f.name, ("",)))):
            row |= _range(name, value)
        elif dataclasses.is_dataclass(value):
            row |= cells(value, f"{name}_")
    return row


def rows_along(result: Any, axis: str) -> list[Row]:
    """One row for each index of an axis: its tensors, the nulls over it, and the names that go with it."""
    axes = _axes(result)
    n = next(len(getattr(result, name)) for name, own in axes.items() if own == (axis,))
    number = _AXES.get(axis, axis.removesuffix("s"))
    columns: dict[str, Any] = {number: range(n)}
    for f in dataclasses.fields(result):
        value, own = getattr(result, f.name), axes.get(f.name, ())
        if isinstance(value, tuple) and len(value) == n and _is_plain(value):
            columns[number if f.name == axis else f.name] = value
        elif own == (axis,):
            columns[f.name] = value.tolist()
        elif len(own) == 2 and axis in own and any(map(_is_null, own)):
            ranges = [_range(f.name, draws) for draws in (value if own[0] == axis else value.mT)]
            columns |= {name: [one[name] for one in ranges] for name in ranges[0]}
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]


def _pairs(result: Any) -> list[Row]:
    """One row for each pair of names, in a result of matrices over them."""
    matrices = [name for name, own in _axes(result).items() if len(own) == 2 and own[0] == own[1]]
    names = getattr(result, "names", ())
    return [
        {"first": names[i], "second": names[j], **{m: getattr(result, m)[i, j].item() for m in matrices}}
        for i in range(len(names) if matrices else 0)
        for j in range(i + 1, len(names))
    ]


def _axes(result: Any) -> dict[str, tuple[str, ...]]:
    """Names of the axes of the tensors that a result holds."""
    axes = {}
    for f in dataclasses.fields(result):
        declared = next((t for t in (f.type, *get_args(f.type)) if hasattr(t, "dim_str")), None)
        if declared is not None and isinstance(getattr(result, f.name), Tensor):
            axes[f.name] = tuple(declared.dim_str.split())
    return axes


def _results(value: Any) -> list[tuple[str | None, Any]]:
    """Results in a container, with their names if they have any."""
    items: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, tuple | list):
        items = ((None, one) for one in value)
    return [(key, one) for key, one in items if dataclasses.is_dataclass(one)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(one, str | int | float) for one in value)
    return isinstance(value, str | int | float)


def _is_null(axis: str) -> bool:
    return axis.endswith("draws")


def _range(name: str, draws: Tensor) -> Row:
    values = draws.double()
    mean, low, high = (
        float(f(values)) if len(values) else math.nan for f in (torch.mean, torch.min, torch.max)
    )
    return {f"{name}_mean": mean, f"{name}_low": low, f"{name}_high": high}
