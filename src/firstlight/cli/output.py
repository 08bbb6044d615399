"""Tables for people, JSON and CSV for programs."""

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from firstlight._internal.safe_text import csv_text, visible

if TYPE_CHECKING:
    from firstlight.cli.options import OutputFormat
    from firstlight.data.images import ImageData

OutputFile = Annotated[Path, Parameter(name=["--output", "-o"])]
VERDICT_STYLES = {
    "reproduced": "green",
    "partly": "yellow",
    "not reproduced": "red",
    "inconclusive": "yellow",
    "not run": "dim",
    "beyond": "green",
    "not beyond": "red",
    "none possible": "dim",
}


MANY_ROWS = 1000


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str] | None = None
) -> None:
    """Print a table that fits the terminal; data are never read as markup."""
    if len(rows) > MANY_ROWS:  # rich needs a second for a few thousand
        _print_plain(title, columns, rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(visible(title)), title_justify="left", header_style="bold", row_styles=list(styles or [])
    )
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(Text(visible(cell), style=VERDICT_STYLES.get(cell, "")) for cell in row))
    console = Console()
    if not console.is_terminal:  # a pipe or a file has no width to respect
        console.width = 160
    console.print(table)


def _print_plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [tuple(columns), *(tuple(map(visible, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(visible(title))
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def page_file(output: Path) -> None:
    """Refuse a path at which no file can be written, before anything is computed."""
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.files import file_to_write

    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InvalidInput(f"--output must name a file in a folder that exists; got {output}.")
    file_to_write(output)


def wrote(page: Path) -> None:
    """Say where the finished page is."""
    print(f"Wrote {visible(str(page))} ({page.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def announce_split(train: "ImageData", test: "ImageData") -> None:
    """Say how many images there are, and how they were split if they came without a split."""
    note = f" ({train.meta['held_out']})" if "held_out" in train.meta else ""
    counts = f"{len(train)} training and {len(test)} test images"
    print(visible(f"{train.meta['name']}: {counts}{note}"), file=sys.stderr)


def print_json(value: Any) -> None:
    """Print JSON with stable order; numbers that are not known (NaN) become null, for JSON has no other word."""
    print(visible(json.dumps(_known(value), indent=1, ensure_ascii=False)))


def print_records(
    records: Sequence[Mapping[str, Any]], form: "OutputFormat", *, document: Mapping[str, Any] | None = None
) -> None:
    """Print rows for programs.

    Parameters
    ----------
    records : sequence of mapping of str to object
        The rows. CSV has a column for each name of the first; lists in a cell are written as JSON.
    form : OutputFormat
        JSON or CSV; of both, one is refused.
    document : mapping of str to object, optional
        What JSON prints in place of the rows, if there is more to say than fits a table.
    """
    from firstlight._internal.errors import InvalidInput

    if form.json and form.csv:
        raise InvalidInput("--json and --csv are two forms of one answer: give one of them.")
    if form.json:
        print_json([dict(row) for row in records] if document is None else dict(document))
        return
    names = list(records[0]) if records else []
    columns = {name: [_cell(row[name]) for row in records] for name in names}
    print(visible(csv_text(columns)), end="")


def _cell(value: Any) -> Any:
    """Return a value for a spreadsheet: nothing for NaN, JSON for a list."""
    known = _known(value)
    return json.dumps(known, ensure_ascii=False) if isinstance(known, list | dict) else known


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _known(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_known(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def in_flags(message: str, flags: Iterable[str], other_names: Mapping[str, str]) -> str:
    """Call arguments by their flags, as the user of a command knows them.

    The library names its arguments in backticks, as a Python caller knows them.

    Parameters
    ----------
    message : str
        Error message of the library.
    flags : iterable of str
        Flags of the command.
    other_names : mapping of str to str
        Flags of arguments that the library calls by another name.

    Examples
    --------
    >>> in_flags("`n_images` must be at least 1; `lr` is fine.", ["--lr"], {"n_images": "--n"})
    '--n must be at least 1; --lr is fine.'
    """
    known = set(flags)

    def flag(match: re.Match[str]) -> str:
        given = other_names.get(match[1], "--" + match[1].replace("_", "-"))
        return given if given in known or match[1] in other_names else match[0]

    return re.sub(r"`(\w+)`", flag, message)


def numbers(values: dict[str, Any]) -> str:
    """Short text for a dictionary of numbers.

    Examples
    --------
    >>> numbers({"mean": 0.98123, "n": 3})
    'mean 0.981, n 3'
    """
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def seconds_of(text: str) -> float:
    """Turn a duration such as 90s, 30m or 2h into seconds.

    Examples
    --------
    >>> seconds_of("30m"), seconds_of("1.5h"), seconds_of("90")
    (1800.0, 5400.0, 90.0)
    """
    from firstlight._internal.errors import InvalidInput

    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InvalidInput(f"`budget` must be a duration such as 90s, 30m or 2h; got {text!r}.")
    return seconds
