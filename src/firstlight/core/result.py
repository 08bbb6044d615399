"""The base of every result: a frozen dataclass that shows itself."""

import dataclasses
import html
from typing import Any, ClassVar

import torch


class Result:
    """Mixin for frozen dataclasses of tensors, numbers, words and nested results.

    Subclasses are declared as ``@dataclass(frozen=True, kw_only=True)``. The store saves and loads
    them; notebooks show them as a table.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values: tensors become nested lists."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(f.name)}</th>"
            f"<td>{html.escape(brief(getattr(self, f.name)))}</td></tr>"
            for f in dataclasses.fields(self)
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


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


def brief(value: Any) -> str:
    """Short text for a value, whatever its size."""
    if isinstance(value, torch.Tensor):
        if value.numel() <= 8:
            return ", ".join(f"{v:.4g}" for v in value.flatten().tolist())
        low, high = value.min().item(), value.max().item()
        return f"{tuple(value.shape)} from {low:.4g} to {high:.4g}"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."
