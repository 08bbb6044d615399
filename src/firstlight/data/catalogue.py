"""Loading data sets by name: from the cache, the user's copy, a registry, or torchvision."""

import warnings
from pathlib import Path

from firstlight.core.errors import DataUnavailable, InvalidInput
from firstlight.data import sets
from firstlight.data.cache import (
    cache_folder,
    demand_writable_cache,
    is_cached,
    manifest,
    read_cache,
    write_cache,
)
from firstlight.data.entries import DATASETS, DataSet, Subset
from firstlight.data.formats.folder import read_folder
from firstlight.data.formats.npz import read_npz
from firstlight.data.images import ImageData
from firstlight.data.stored import Splits, StoredImages
from firstlight.fetching.archives import unpacked
from firstlight.fetching.packages import torchvision_files

assert sets.__all__, "importing the sets fills the registry"


def load(
    name: str | Path,
    split: str = "train",
    n: int | None = None,
    seed: int = 0,
    source: str | Path | None = None,
) -> ImageData:
    """Load labelled images, fetching them first if need be.

    Parameters
    ----------
    name : str or Path
        A data set (``"cifar10"``), some classes of one (``"cifar10:cat/dog"``), a named subset
        (``"cats_dogs"``), or the path of a folder of class folders, an npz file or an archive of either.
    split : str, default 'train'
        ``"train"`` or ``"test"``.
    n : int, optional
        Draw this many images, evenly over the classes, as `ImageData.sample` does; default all.
    seed : int, default 0
        Of the draw.
    source : str or Path, optional
        Your own copy of the data set, in its standard files; with ``"folder"`` any class folders.

    Returns
    -------
    ImageData
        Pixels as float32 in [0, 1]; `meta` tells name, split, licence and number of images. If the data
        set can be had nowhere, `DataUnavailable` says what to put where.

    Examples
    --------
    >>> photos = load("photos:coffee/rocket", n=10)
    >>> photos.shape, photos.classes, photos.counts.tolist()
    ((3, 32, 32), ('coffee', 'rocket'), [5, 5])
    """
    if isinstance(name, Path) or _is_path(name):
        name, source = "folder", name
    entry, chosen = _resolved(name)
    stored = _stored(entry, split, None if source is None else Path(source).expanduser())
    if chosen:
        stored = stored.only(chosen)
    where = entry.where if source is None else "your copy"
    meta = {"name": name, "split": split, "licence": entry.licence, "where": where}
    return stored.image_data(n, seed=seed, meta=meta if n is None else {**meta, "seed": seed})


def available() -> tuple[str, ...]:
    """Names that `load` knows, sorted."""
    return tuple(DATASETS)


def describe(name: str) -> DataSet:
    """What is known of a data set without loading it; a subset tells of the set it is part of."""
    return _resolved(name)[0]


def chosen_classes(name: str) -> tuple[str, ...]:
    """Classes that a name such as ``"cifar10:cat/dog"`` or ``"cats_dogs"`` picks; empty if all.

    Examples
    --------
    >>> chosen_classes("cats_dogs")
    ('cat', 'dog')
    """
    return _resolved(name)[1]


def fetch(name: str, *, source: str | Path | None = None) -> Path | None:
    """Make sure that a data set lies in the cache and return its folder; None if it needs none."""
    entry, _ = _resolved(name)
    if entry.embedded is not None or not entry.counts:
        return None
    return _ensured(entry, None if source is None else Path(source).expanduser())


def _resolved(name: str) -> tuple[DataSet, tuple[str, ...]]:
    base, _, chosen = name.partition(":")
    entry = DATASETS[base]
    if isinstance(entry, Subset):
        if chosen:
            raise InvalidInput(f"{base!r} is already a subset; write {entry.of.partition(':')[0]}:{chosen}.")
        return _resolved(entry.of)
    names = tuple(word for word in chosen.split("/") if word)
    if ":" in name and not names:
        raise InvalidInput(f"Classes must follow the colon, as in 'cifar10:cat/dog'; got {name!r}.")
    return entry, tuple(one for word in names for one in entry.groups.get(word, (word,)))


def _is_path(name: str) -> bool:
    if name.partition(":")[0] in DATASETS:
        return False
    return name.startswith((".", "~", "/")) or "/" in name.partition(":")[0] or Path(name).exists()


def _stored(entry: DataSet, split: str, source: Path | None) -> StoredImages:
    if entry.counts:
        _demand_split(entry, split, tuple(entry.counts))
    if entry.embedded is not None:
        return entry.embedded()[split]
    if entry.counts:
        _ensured(entry, source)
        return read_cache(entry.name, split)
    if source is None:
        raise InvalidInput("`source` must name a folder of class folders or an npz file; got none.")
    splits = _copy(entry, source)
    _demand_split(entry, split, tuple(splits))
    return splits[split]


def _demand_split(entry: DataSet, split: str, known: tuple[str, ...]) -> None:
    if split not in known:
        words = " or ".join(map(repr, known))
        raise InvalidInput(f"`split` of {entry.name} must be {words}; got {split!r}.")


def _ensured(entry: DataSet, source: Path | None) -> Path:
    origin = "fetched" if source is None else _state(source)
    if is_cached(entry.name) and (source is None or manifest(entry.name)["origin"] == origin):
        return cache_folder() / entry.name
    demand_writable_cache()
    splits = _fetched(entry) if source is None else _copy(entry, source)
    _demand_sense(entry, splits)
    return write_cache(entry.name, splits, origin=origin, replace=source is not None)


def _state(source: Path) -> str:
    """Name a user's copy so that a changed copy is read again, an unchanged one is not."""
    if not source.exists():
        raise InvalidInput(f"`source` must exist; {source} does not.")
    stat = source.stat()
    return f"{source.resolve()} {stat.st_size} {stat.st_mtime_ns}"


def _copy(entry: DataSet, source: Path) -> Splits:
    """Read a user's copy with the first reader that knows its format."""
    if not source.exists():
        raise InvalidInput(f"`source` must exist; {source} does not.")
    with unpacked(source) as place:
        if place.suffix == ".npz":
            return read_npz(place, classes=entry.classes)
        folder = place if place.is_dir() else place.parent
        for reader in entry.readers:
            if splits := reader(folder):
                return splits
        if place.is_dir():
            for candidate in (folder, *_only_child(folder)):
                if splits := read_folder(candidate, classes=entry.classes, side=entry.resized):
                    return splits
    raise InvalidInput(f"{source} does not hold {entry.name}. It must hold {entry.formats}.")


def _only_child(folder: Path) -> list[Path]:
    """The folder that most archives wrap around their contents."""
    children = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("__")]
    return children if len(children) == 1 else []


def _fetched(entry: DataSet) -> Splits:
    """Try every way to get a data set without an account; say why each failed."""
    reasons = []
    for fetcher in entry.fetchers:
        try:
            return fetcher()
        except DataUnavailable as error:
            reasons.append(str(error))
    if entry.torchvision is not None:
        try:
            with torchvision_files(*entry.torchvision) as folder:
                return _copy(entry, folder)
        except DataUnavailable as error:
            reasons.append(str(error))
    tried = f" Tried: {'; '.join(reasons)}." if reasons else ""
    raise DataUnavailable(
        f"The data set {entry.name!r} is not in the cache and cannot be fetched here.{tried} "
        f"Get {entry.formats}, then run `firstlight data get {entry.name} --from PATH`."
    )


def _demand_sense(entry: DataSet, splits: Splits) -> None:
    """Refuse a copy of something else before it enters the cache; warn of an incomplete one."""
    for split, expected in entry.counts.items():
        if split not in splits:
            raise InvalidInput(
                f"The copy of {entry.name} has no {split!r} split. It must hold {entry.formats}."
            )
        images = splits[split]
        if tuple(images.x.shape[1:]) != entry.shape:
            raise InvalidInput(
                f"Images of {entry.name} must be {entry.shape} (channels, height, width); "
                f"got {tuple(images.x.shape[1:])} in {split!r}. Is this a copy of another data set?"
            )
        if len(images) != expected:
            warnings.warn(
                f"this copy of {entry.name} has {len(images)} {split} images; complete it has {expected}",
                stacklevel=5,
            )
    present = set(splits["train"].y.tolist())
    if missing := [name for label, name in enumerate(entry.classes) if label not in present]:
        raise InvalidInput(f"The copy of {entry.name} has no training image of class {missing[0]!r}.")
