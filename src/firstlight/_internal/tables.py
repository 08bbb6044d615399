"""Tables as CSV files that no spreadsheet takes for formulas."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firstlight._internal.files import whole_file


def inert(value: Any) -> Any:
    """Put a quote in front of words that a spreadsheet would take for a formula.

    Examples
    --------
    >>> inert("=cmd()"), inert("cat"), inert(-1.5)
    ("'=cmd()", 'cat', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and re.match(r"[=+@\t\r-]", value) else value


def csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    r"""Columns of equal length as CSV, numbers in full precision.

    Examples
    --------
    >>> csv_text({"file": ["a.png", "b,c.png"], "score": [0.5, 1]})
    'file,score\na.png,0.5\n"b,c.png",1\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(inert, columns))
    writer.writerows([inert(value) for value in row] for row in zip(*columns.values(), strict=True))
    return text.getvalue()


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns of equal length, whole or not at all."""
    with whole_file(path) as part:
        # names of files may be no text
        part.write_bytes(csv_text(columns).encode("utf-8", errors="backslashreplace"))
    return path
