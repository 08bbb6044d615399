"""Where numbers of a training may go: files, functions, and the loggers that people use, none of which is required."""

import csv
import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import file_to_write

Send = Callable[[int, dict[str, float]], None]


def sender(logger: Any, prefix: str) -> Send:
    """Return a function of step and numbers that hands them to `logger`, known by what it can do.

    Parameters
    ----------
    logger : object
        See :func:`firstlight.questions.inspect.watch.watch`.
    prefix : str
        What the names of the numbers begin with.
    """
    if isinstance(logger, str | Path):
        return _file(Path(logger))
    if isinstance(logger, logging.Logger):
        raise InvalidInput(
            "`logger` must take numbers; Python's logging takes words. Name a file such as watch.jsonl."
        )
    if not hasattr(logger, "add_scalar") and not _batched(logger) and not callable(logger):
        raise InvalidInput(
            "`logger` must be a file that ends in .csv or .jsonl, a function of step and numbers, or have add_scalar, "
            f"log_metrics, log_metric or log; got {type(logger).__name__}."
        )

    def send(step: int, values: dict[str, float]) -> None:
        named = {prefix + name: value for name, value in values.items()}
        if hasattr(logger, "add_scalar"):  # TensorBoard
            for name, value in named.items():
                logger.add_scalar(name, value, step)
        elif hasattr(logger, "log_metrics"):  # Lightning, MLflow
            logger.log_metrics(named, step=step)
        elif hasattr(logger, "log_metric"):
            for name, value in named.items():
                logger.log_metric(name, value, step=step)
        elif hasattr(
            logger, "log"
        ):  # Weights & Biases; its own step counts calls, so ours is a number beside others
            logger.log({**named, f"{prefix}step": step})
        else:
            logger(step, named)

    return send


def _batched(logger: Any) -> bool:
    return any(hasattr(logger, name) for name in ("log_metrics", "log_metric", "log"))


def _file(path: Path) -> Send:
    """A line for each measurement; the file begins anew, and is closed after every line."""
    if path.suffix not in (".csv", ".jsonl"):
        raise InvalidInput(f"`logger` must name a file that ends in .csv or .jsonl; got {path}.")
    file_to_write(path)
    path.write_text("", encoding="utf-8")
    columns: list[str] = []

    def send(step: int, values: dict[str, float]) -> None:
        with path.open("a", encoding="utf-8", newline="") as file:
            if path.suffix == ".jsonl":
                known = {name: value if math.isfinite(value) else None for name, value in values.items()}
                file.write(json.dumps({"step": step, **known}) + "\n")
                return
            writer = csv.writer(file, lineterminator="\n")
            if not columns:  # the first measurement has all numbers
                columns.extend(values)
                writer.writerow(["step", *columns])
            writer.writerow([step, *(values.get(name, "") for name in columns)])

    return send
