"""`firstlight data`: list, fetch and describe data sets."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from firstlight.cli.options import AS_THEY_ARE, TEXT, DataName, FolderOptions, OutputFormat, Source

if TYPE_CHECKING:
    from firstlight.data.entries import DataSet

COLUMNS = ("name", "shape", "classes", "comes from", "here?")
app = App(name="data", help="List, fetch and describe data sets.")


@app.command(name="list")
def list_(*, form: OutputFormat = TEXT) -> None:
    """List data sets, where they come from and whether they are in the cache."""
    from firstlight.cli.output import print_records, print_table
    from firstlight.data.cache import cache_folder
    from firstlight.data.catalogue import available, describe
    from firstlight.data.entries import DATASETS

    rows = []
    for name in available():
        entry, known = describe(name), DATASETS[name]
        shape = "x".join(map(str, entry.shape)) if entry.shape else "any"
        subset = getattr(known, "of", "")
        where = f"part of {subset.partition(':')[0]}" if subset else entry.where
        rows.append((name, shape, _class_count(name, entry), where, _presence(entry)))
    if not form.is_text:
        print_records([dict(zip(COLUMNS, row, strict=True)) for row in rows], form)
        return
    print_table(f"{len(rows)} data sets", COLUMNS, rows)
    print(f"The cache is {cache_folder()} (set FIRSTLIGHT_DATA to move it).")


@app.command
def get(name: str, *, source: Source = None) -> None:
    """Put a data set into the cache, from a registry or from your own copy.

    Parameters
    ----------
    name
        Name of the data set, as in `firstlight data list`.
    """
    from firstlight._internal.untrusted_files import guarded
    from firstlight.data.cache import manifest
    from firstlight.data.catalogue import describe, fetch

    with guarded(source, f"a copy of {name}") if source else nullcontext():
        folder = fetch(name, source=source)
    entry = describe(name)
    if folder is None:
        print(f"{entry.name} needs no fetching: {entry.where}.")
        return
    counts = ", ".join(f"{f['n']} {Path(file).stem}" for file, f in manifest(entry.name)["files"].items())
    print(f"{entry.name} is in {folder}: {counts} images.")


@app.command
def info(
    name: DataName,
    *,
    split: str = "train",
    source: Source = None,
    folder: FolderOptions = AS_THEY_ARE,
    form: OutputFormat = TEXT,
) -> None:
    """Load a data set and print its counts, pixel statistics and licence note.

    Parameters
    ----------
    split
        Images to describe: train or test.
    """
    import torch

    from firstlight._internal.untrusted_files import guarded
    from firstlight.cli.output import print_records, print_table
    from firstlight.data.catalogue import load

    with guarded(source, f"a copy of {name}") if source else nullcontext():
        data = load(name, split, source=source, **folder.options)
    std, mean = (values.tolist() for values in torch.std_mean(data.x.double(), dim=(0, 2, 3), correction=0))
    counts = dict(zip(data.classes, data.counts.tolist(), strict=True))
    facts: dict[str, Any] = {
        "name": data.meta["name"], "split": split, "images": len(data), "shape": list(data.shape), "mean": mean,
        "std": std, "licence": str(data.meta["licence"]), "from": str(data.meta["where"]),
    }  # fmt: skip
    if not form.is_text:
        records = [{"class": label, "images": n} for label, n in counts.items()]
        print_records(records, form, document={**facts, "classes": records})
        return
    facts |= {
        "shape": "x".join(map(str, data.shape)),
        "mean": " ".join(f"{value:.5f}" for value in mean),
        "std": " ".join(f"{value:.5f}" for value in std),
    }
    print_table(
        f"{facts['name']} ({split})", ("what", "here"), [(what, str(here)) for what, here in facts.items()]
    )
    print_table("Images of each class", ("class", "images"), [(label, str(n)) for label, n in counts.items()])


@app.command
def rm(name: str) -> None:
    """Remove a data set from the cache.

    Parameters
    ----------
    name
        Name of the data set, as in `firstlight data list`.
    """
    from firstlight.data.cache import remove_cached
    from firstlight.data.catalogue import describe

    entry = describe(name)
    print(f"Removed {entry.name}." if remove_cached(entry.name) else f"{entry.name} was not in the cache.")


def _class_count(name: str, entry: "DataSet") -> str:
    from firstlight.data.catalogue import chosen_classes

    count = len(chosen_classes(name)) or len(entry.classes)
    return str(count) if count else "any"


def _presence(entry: "DataSet") -> str:
    from firstlight.data.cache import is_cached

    if entry.embedded is not None:
        return "always"
    return "yes" if is_cached(entry.name) else "no" if entry.counts else "-"
