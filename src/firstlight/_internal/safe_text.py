"""Text from files and file names, made fit to be shown: nothing in it acts on a terminal or in a spreadsheet."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firstlight._internal.files import whole_file

_NOT_PLAIN = re.compile(r"[^\n\t -~]")


def visible(text: str) -> str:
    r"""Show control characters, and bytes of file names that are no text, as escapes.

    An escape code in a name could otherwise recolour, retitle or rewrite a terminal.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _NOT_PLAIN.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


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
