"""Run folders: `run.json` and `arrays.safetensors`, written whole, named by what decides them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstlight._internal.store.encoding import decode, encode
    from firstlight._internal.store.runs import Run, RunSpec, Store

__all__ = ["Run", "RunSpec", "Store", "decode", "encode"]

# Imported when first asked for: a list of runs needs no torch, which takes a second.
_WHERE = {"Run": "runs", "RunSpec": "runs", "Store": "runs", "decode": "encoding", "encode": "encoding"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
