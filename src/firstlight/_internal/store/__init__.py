"""Run folders: `run.json` and `arrays.safetensors`, written whole, named by what decides them."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight._internal.store.encoding import decode, encode
    from firstlight._internal.store.runs import Run, RunSpec, Store

# imported when first asked for: a list of runs needs no torch, which takes a second
lazy_exports(__name__)
