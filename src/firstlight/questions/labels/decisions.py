"""What somebody decided about labels, turned into a corrected copy of the data."""

import csv
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file, whole_folder
from firstlight._internal.untrusted_files import demand_regular, guarded
from firstlight.data.formats.folder import list_folder
from firstlight.data.label_table import columns_of, files_and_labels

DECISIONS = ("keep", "relabel", "remove")
COLUMNS = ("file", "label", "decision", "new_label")


@dataclass(frozen=True)
class Decision:
    """What to do with the label of one file."""

    file: str
    label: str
    decision: str
    new_label: str


def read_decisions(path: str | Path) -> list[Decision]:
    """Read the CSV that the page exports, each row checked.

    Parameters
    ----------
    path : str or Path
        Columns file, label, decision (keep, relabel or remove) and new_label; others are ignored.
    """
    table = Path(path)
    with (
        guarded(table, "a CSV of decisions"),
        demand_regular(table).open(newline="", encoding="utf-8-sig") as opened,
    ):
        rows = list(csv.DictReader(opened, strict=True))
    if not rows or not set(COLUMNS) <= set(rows[0]):
        raise InvalidInput(
            f"{table} must have the columns {', '.join(COLUMNS)} and a row for each decision, as the page exports "
            f"them; it has {', '.join(map(str, rows[0])) if rows else 'no rows'}."
        )
    decisions = [Decision(*(_plain(row[name] or "") for name in COLUMNS)) for row in rows]
    for number, one in enumerate(decisions, 1):
        if (
            one.decision not in DECISIONS
            or not one.file
            or (one.decision == "relabel") != bool(one.new_label)
        ):
            raise InvalidInput(
                f"{table}, row {number}: a row must name a file and one of {', '.join(DECISIONS)}, and a new label if "
                f"and only if it relabels; got {one.file!r}, {one.decision!r}, {one.new_label!r}."
            )
    twice = [file for file, count in Counter(one.file for one in decisions).items() if count > 1]
    if twice:
        raise InvalidInput(f"{table} decides twice about {twice[0]}. Keep one row for each file.")
    return decisions


def apply_decisions(
    data: str | Path, decisions: str | Path, to: str | Path | None = None
) -> tuple[Path, Counter[str]]:
    """Write a corrected copy of a folder of class folders, or of a table of files and labels.

    Parameters
    ----------
    data : str or Path
        The folder or the CSV that was checked.
    decisions : str or Path
        What :func:`read_decisions` reads.
    to : str or Path, optional
        New folder or new CSV; by default beside `data`, with "-corrected" behind its name.

    Returns
    -------
    tuple
        What was written, and how often each decision was applied.
    """
    source = Path(data)
    chosen = read_decisions(decisions)
    target = source.with_name(f"{source.stem}-corrected{source.suffix}") if to is None else Path(to)
    if not (source.is_dir() or (source.is_file() and source.suffix.lower() == ".csv")):
        raise InvalidInput(
            f"decisions apply to a folder of class folders or to a CSV of files; {source} is neither."
        )
    if os.path.lexists(target) or not target.absolute().parent.is_dir():
        raise InvalidInput(
            f"{target} must not exist yet, in a folder that does. Choose another name by `to`."
        )
    (_corrected_folder if source.is_dir() else _corrected_table)(source, chosen, target)
    return target, Counter(one.decision for one in chosen)


def _corrected_table(source: Path, chosen: list[Decision], target: Path) -> None:
    files, labels = files_and_labels(source)
    by_file = _by_file(chosen, dict(zip(files, labels, strict=True)), tuple(sorted(set(labels))))
    with source.open(newline="", encoding="utf-8-sig") as opened:
        header, *rows = csv.reader(opened, strict=True)
    if target.absolute().parent != source.absolute().parent and not all(map(os.path.isabs, files)):
        raise InvalidInput(f"{target} must lie in the folder of {source}: its files are named from there.")
    file, label = columns_of(header)
    with whole_file(target) as part, part.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(header)
        for row in filter(None, rows):
            one = by_file.get(row[file].strip())
            if one is not None and one.decision == "relabel":
                row[label] = one.new_label
            if one is None or one.decision != "remove":
                writer.writerow(row)


def _corrected_folder(source: Path, chosen: list[Decision], target: Path) -> None:
    labels: dict[str, str] = {}
    classes: set[str] = set()
    for listed in (list_folder(source) or {}).values():
        names = [listed.classes[label] for label in listed.y.tolist()]
        labels |= {os.path.abspath(file): name for file, name in zip(listed.names, names, strict=True)}
        classes |= set(listed.classes)
    absolute = [Decision(os.path.abspath(one.file), one.label, one.decision, one.new_label) for one in chosen]
    by_file = _by_file(absolute, labels, tuple(sorted(classes)))
    with whole_folder(target) as part:
        for file in _files(source):
            one = by_file.get(os.path.abspath(file))
            place = file.relative_to(source)
            if one is not None and one.decision == "remove":
                continue
            if one is not None and one.decision == "relabel":
                place = _free(place.parent.parent / one.new_label / place.name, source, part)
            (part / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, part / place)


def _by_file(chosen: list[Decision], labels: dict[str, str], classes: tuple[str, ...]) -> dict[str, Decision]:
    """Decisions by file, once every one of them is about these data."""
    for one in chosen:
        if labels.get(one.file) != one.label:
            found = f"its label is {labels[one.file]!r}" if one.file in labels else "there is no such file"
            raise InvalidInput(
                f"{one.file} was decided on with the label {one.label!r}, but {found} in these data."
            )
        if one.decision == "relabel" and one.new_label not in classes:
            raise InvalidInput(
                f"{one.file}: the new label must be one of the classes {', '.join(classes[:12])}"
                f"{', ...' if len(classes) > 12 else ''}; got {one.new_label!r}."
            )
    return {one.file: one for one in chosen}


def _files(root: Path) -> Iterator[Path]:
    """Regular files below a folder; links to folders are not followed."""
    for folder, _, names in os.walk(root):
        yield from (file for name in sorted(names) if (file := Path(folder) / name).is_file())


def _free(place: Path, source: Path, part: Path) -> Path:
    """A name that no other file of the class has, there or in the copy."""
    number, free = 1, place
    while os.path.lexists(source / free) or os.path.lexists(part / free):
        number, free = number + 1, place.with_stem(f"{place.stem}-{number + 1}")
    return free


def _plain(value: str) -> str:
    """A cell without the quote that keeps a spreadsheet from taking it for a formula."""
    return value[1:] if re.match(r"'[=+@\t\r-]", value) else value
