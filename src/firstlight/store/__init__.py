"""Run folders: `run.json` and `arrays.safetensors`, written whole, named by what decides them."""

from firstlight.store.encoding import decode, encode
from firstlight.store.runs import Run, RunSpec, Store

__all__ = ["Run", "RunSpec", "Store", "decode", "encode"]
