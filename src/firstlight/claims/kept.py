"""Outcomes of the tasks of an unfinished study, in its scratch folder."""

from pathlib import Path
from typing import Any

from firstlight.training.checkpoint import load_checkpoint, save_checkpoint


class KeptOutcomes:
    """A folder of finished tasks; what cannot be written as numbers and words is done again.

    Parameters
    ----------
    folder : Path
        Scratch folder of one run, whose name covers settings and code.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> tuple[Any, float] | None:
        """The outcome kept under a key and the CPU seconds it cost, or None."""
        kept = load_checkpoint(self._file(key))
        return None if kept is None else (kept["outcome"], kept["cpu_seconds"])

    def put(self, key: str, outcome: Any, seconds: float) -> None:
        """Write an outcome, whole or not at all; one that is not made of results, tensors and words is left."""
        try:
            save_checkpoint(self._file(key), {"outcome": outcome, "cpu_seconds": seconds})
        except TypeError:
            return

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"
