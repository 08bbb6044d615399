"""Loading data sets by name: from the cache, the user's copy, a registry, or torchvision."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.errors import InvalidInput
from firstlight._internal.hub import hub_file, is_on_hub
from firstlight._internal.untrusted_files import guarded
from firstlight.data.cache import read_cache
from firstlight.data.entries import DATASETS, SPLITS, DataSet, Subset
from firstlight.data.fetched import ensure_cached
from firstlight.data.formats.folder import PictureFiles
from firstlight.data.formats.pictures import AS_THEY_ARE, Decoding
from firstlight.data.images import ImageData, even_sample, held_out
from firstlight.data.user_copies import Part, opened_copy

ON_HUB = (
    ".npz",
    ".zip",
    ".tar",
    ".tar.gz",
    ".tgz",
)  # one file is there or not; a folder may be there in part


def load(
    name: str | Path,
    split: str | None = "train",
    n: int | None = None,
    seed: int = 0,
    source: str | Path | None = None,
    *,
    at_most: int | None = None,
    size: int | None = None,
    crop: bool = True,
    channels: int | None = None,
    skip_broken: bool = False,
) -> ImageData:
    """Load labelled images, fetching them first if need be.

    Parameters
    ----------
    name : str or Path
        A data set (``"cifar10"``), some classes of one (``"cifar10:cat/dog"``), a named subset
        (``"cats_dogs"``), or the path of a folder of class folders, an npz file or an archive of either. Such a file
        on the Hugging Face hub is ``"hf://datasets/OWNER/NAME/FILE"``.
    split : str or None, default 'train'
        ``"train"`` or ``"test"``; None takes the test images, or all images of a folder without splits.
    n : int, optional
        Draw this many images, evenly over the classes, as `ImageData.sample` does; default all. Of a
        folder only the drawn images are decoded.
    seed : int, default 0
        Seed of the draw.
    source : str or Path, optional
        Your own copy of the data set, in its standard files; with ``"folder"`` any class folders.
    at_most : int, optional
        Draw this many images if there are more.
    size, crop, channels, skip_broken
        How to decode the pictures of a folder, see :func:`load_splits`.

    Returns
    -------
    ImageData
        Pixels as float32 in [0, 1]; `meta` tells name, split, licence and number of images. If the data
        set cannot be fetched, `DataUnavailable` says what to put where.

    Examples
    --------
    >>> photos = load("photos:coffee/rocket", n=10)
    >>> photos.shape, photos.classes, photos.counts.tolist()
    ((3, 32, 32), ('coffee', 'rocket'), [5, 5])
    """
    request = _Request.of(name, source)
    decoding = Decoding(size=size, crop=crop, channels=channels, skip_broken=skip_broken)
    with request.parts(decoding, split) as parts:
        chosen = split or next(name for name in reversed(SPLITS) if name in parts)
        return request.images(parts[chosen], chosen, n=n, at_most=at_most, seed=seed)


def load_splits(
    name: str | Path,
    *,
    n: int | None = None,
    at_most: int | None = None,
    n_test: int | None = None,
    seed: int = 0,
    source: str | Path | None = None,
    share: float = 0.2,
    size: int | None = None,
    crop: bool = True,
    channels: int | None = None,
    skip_broken: bool = False,
) -> tuple[ImageData, ImageData]:
    """Load training and test images; a folder without a test split gets one.

    Parameters
    ----------
    name, seed, source
        As for :func:`load`.
    n : int, optional
        Number of training images, drawn evenly over the classes; default all.
    at_most : int, optional
        Largest number of training images if `n` is not given.
    n_test : int, optional
        Largest number of test images.
    share : float, default 0.2
        Share of each class that becomes the test split where there is none. Which images these are
        depends on `seed` only, and `meta["held_out"]` says it in a sentence.
    size : int, optional
        Side of the square that every picture of a folder becomes; by default all must have one size.
    crop : bool, default True
        Whether to cut out the largest centred square before resizing. Otherwise pictures are stretched.
    channels : int, optional
        1 for grey, 3 for colour; by default grey only if all pictures of the folder are.
    skip_broken : bool, default False
        Whether to leave out files that cannot be decoded instead of stopping at the first.

    Returns
    -------
    tuple of ImageData
        Training images and test images.
    """
    request = _Request.of(name, source)
    decoding = Decoding(size=size, crop=crop, channels=channels, skip_broken=skip_broken)
    with request.parts(decoding, "train") as parts:
        if not parts["train"].is_labelled:
            raise InvalidInput(
                f"Training needs labels; {request.name} holds images without any. Put them into one folder "
                "per class."
            )
        notes: dict[str, Any] = {}
        train, test = parts["train"], parts.get("test")
        if test is None:
            train, test, notes = _own_split(train, share, seed)
        images = (
            request.images(train, "train", n=n, at_most=at_most, seed=seed, **notes),
            request.images(test, "test", n=None, at_most=n_test, seed=seed, **notes),
        )
    if images[0].shape != images[1].shape:
        raise InvalidInput(
            f"Train and test images must have one size; got {images[0].shape} and {images[1].shape} (channels, "
            "height, width). Give `size` and `channels` to convert them."
        )
    return images


def available() -> tuple[str, ...]:
    """Names that `load` knows, sorted."""
    return tuple(DATASETS)


def describe(name: str) -> DataSet:
    """Describe a data set without loading it; for a subset, the set it is part of."""
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
    return ensure_cached(entry, None if source is None else Path(source).expanduser())


@dataclass(frozen=True)
class _Request:
    """What a name and a source ask for."""

    name: str
    entry: DataSet
    classes: tuple[str, ...]
    source: Path | None

    @classmethod
    def of(cls, name: str | Path, source: str | Path | None) -> "_Request":
        if is_on_hub(name):
            return cls(str(name), *_resolved("folder"), hub_file(name, kind="datasets", endings=ON_HUB))
        if isinstance(name, Path) or _is_path(name):
            path = Path(name).expanduser()
            with guarded(path, "images"):  # a link may lead to itself
                shown = path.resolve().name  # on the page and in the tables
            return cls(shown, *_resolved("folder"), path)
        return cls(name, *_resolved(name), None if source is None else Path(source).expanduser())

    @contextmanager
    def parts(self, decoding: Decoding, split: str | None) -> Iterator[Mapping[str, Part]]:
        """The splits, of named sets only `split`, and the other one if it is None or "train".

        An unknown split is refused before anything is fetched.
        """
        if not self.entry.counts:
            if self.source is None:
                raise InvalidInput("`source` must name a folder of class folders or an npz file; got none.")
            with opened_copy(self.entry, self.source, decoding) as parts:
                self._demand_split(split, tuple(parts))
                self._demand_pictures(decoding, parts)
                yield parts
            return
        self._demand_split(split, tuple(self.entry.counts))
        self._demand_pictures(decoding, {})
        if self.entry.embedded is not None:
            yield self.entry.embedded()
            return
        ensure_cached(self.entry, self.source)
        yield _Cached(self.entry.name, tuple(self.entry.counts))

    def images(
        self, part: Part, split: str, *, n: int | None, at_most: int | None, seed: int, **notes: Any
    ) -> ImageData:
        """Choose the classes, then the images, then decode them."""
        if self.classes:
            part = part.only(self.classes)
        where = self.entry.where if self.source is None else "your copy"
        meta = {"name": self.name, "split": split, "licence": self.entry.licence, "where": where, **notes}
        if n is None and at_most is not None:
            n = min(at_most, len(part)) if at_most > 0 else at_most  # zero is refused below
        if n is not None:
            part = part.take(even_sample(part.y, n, n_classes=len(part.classes), seed=seed))
            meta["seed"] = seed
        return part.decoded().image_data(meta)

    def _demand_split(self, split: str | None, known: tuple[str, ...]) -> None:
        if split is not None and split not in known:
            words = " or ".join(map(repr, known))
            raise InvalidInput(f"`split` of {self.name} must be {words}; got {split!r}.")

    def _demand_pictures(self, decoding: Decoding, parts: Mapping[str, Part]) -> None:
        if decoding != AS_THEY_ARE and not any(isinstance(part, PictureFiles) for part in parts.values()):
            raise InvalidInput(
                "`size`, `crop`, `channels` and `skip_broken` say how to decode a folder of pictures; "
                f"{self.name} is none. Leave them out."
            )


class _Cached(Mapping[str, Part]):
    """The splits of a cached data set, each read when it is asked for."""

    def __init__(self, name: str, splits: tuple[str, ...]) -> None:
        self.name, self.splits = name, splits

    def __getitem__(self, split: str) -> Part:
        if split not in self.splits:
            raise KeyError(split)
        return read_cache(self.name, split)

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)


def _own_split(whole: Part, share: float, seed: int) -> tuple[Part, Part, dict[str, Any]]:
    keep, test = held_out(whole.y, n_classes=len(whole.classes), share=share, seed=seed)
    note = (
        f"no test split: {len(test)} of {len(whole)} images are held out for testing, drawn with seed {seed}"
    )
    return whole.take(keep), whole.take(test), {"held_out": note}


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
