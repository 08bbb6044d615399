"""Image files as arrays of bytes."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from firstlight._internal.errors import InvalidInput
from firstlight._internal.progress import progress
from firstlight._internal.untrusted_files import FAILURES, is_regular, reason_of

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp", ".webp", ".tif", ".tiff", ".gif"})
_GREY = frozenset({"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "F"})
_DEEP = frozenset({"I", "I;16", "I;16B", "I;16L"})
_EXAMINED = 64  # headers that decide whether a folder is grey; all of them would take minutes on a large one


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How pictures become arrays of one shape.

    Parameters
    ----------
    size : int, optional
        Side of the square that every picture becomes; by default all must have one size.
    crop : bool, default True
        Whether to cut out the largest centred square before resizing. Otherwise pictures are stretched.
    channels : int, optional
        1 for grey, 3 for colour; by default grey only if all pictures are.
    skip_broken : bool, default False
        Whether to leave out files that cannot be decoded instead of stopping at the first.
    """

    size: int | None = None
    crop: bool = True
    channels: int | None = None
    skip_broken: bool = False

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise InvalidInput(f"`size` must be at least 1; got size={self.size}.")
        if self.channels not in (None, 1, 3):
            raise InvalidInput(f"`channels` must be 1 (grey) or 3 (colour); got channels={self.channels}.")


AS_THEY_ARE = Decoding()


class BrokenPicture(InvalidInput):
    """A file that is no image, or is damaged."""


def picture(path: Path, decoding: Decoding = AS_THEY_ARE) -> np.ndarray:
    """Decode one image file to ``h w c`` bytes with one or three channels.

    Pictures are turned upright as their EXIF tag says. Transparent parts become white, 16 bits become 8.

    Parameters
    ----------
    path : Path
        Any format Pillow knows.
    decoding : Decoding
        Size and channels of the result.
    """
    size = decoding.size
    try:
        with _opened(path) as opened:
            if size is not None:
                opened.draft("RGB", (size * 2, size * 2))  # JPEG decodes faster at a fraction of the size
            opened.load()
            return prepared(opened, decoding, name=str(path))
    except InvalidInput:
        raise
    except FAILURES as error:
        raise BrokenPicture(
            f"{path} is truncated or not an image ({reason_of(error)}). Remove it or get a fresh copy, or give "
            "`skip_broken` to leave such files out."
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open a regular file as a picture; Pillow only warns of one with up to twice its limit of pixels."""
    if not is_regular(path):
        raise BrokenPicture(f"{path} must be an image file; it is a folder, a device or a pipe. Remove it.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(path)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BrokenPicture(f"{path} is too large an image ({reason_of(error)}).") from error
    with image:
        yield image


def prepared(image: Image.Image, decoding: Decoding = AS_THEY_ARE, *, name: str) -> np.ndarray:
    """Turn a decoded picture into ``h w c`` bytes; `name` is what an error message calls it."""
    plain = _eight_bits(ImageOps.exif_transpose(image), name)
    if decoding.channels is not None:
        plain = plain.convert("L" if decoding.channels == 1 else "RGB")
    if decoding.size is not None:
        plain = _square(plain, decoding.size, crop=decoding.crop)
    pixels = np.asarray(plain)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def pictures(
    paths: Sequence[Path], *, label: str, decoding: Decoding = AS_THEY_ARE
) -> tuple[np.ndarray, list[int]]:
    """Decode many image files to ``n h w c`` bytes of one shape.

    Returns
    -------
    pixels : numpy.ndarray
        The pictures that could be decoded.
    kept : list of int
        Which of `paths` they are; all of them unless broken files are skipped.
    """
    pixels, kept = np.empty((0, 0, 0, 0), np.uint8), list[int]()
    with progress(label, total=float(len(paths)), unit="images") as bar:
        for i, path in enumerate(paths):
            bar.advance()
            try:
                one = picture(path, decoding)
            except BrokenPicture:
                if not decoding.skip_broken:
                    raise
                continue
            if not kept:
                pixels = np.empty((len(paths), *one.shape), np.uint8)
            elif one.shape != pixels.shape[1:]:
                raise InvalidInput(
                    f"all images must have one size and number of channels; {paths[kept[0]].name} is "
                    f"{_words(pixels[0])}, {path} is {_words(one)}. Give `size` and `channels` to convert them."
                )
            pixels[len(kept)] = one
            kept.append(i)
    if not kept:
        raise InvalidInput(f"None of the {len(paths)} images can be decoded; the first is {paths[0]}.")
    return pixels[: len(kept)], kept


def any_colour(paths: Sequence[Path]) -> bool:
    """Whether any of the pictures is coloured, by the headers of at most 64 of them, evenly spaced."""
    for path in paths[:: max(1, len(paths) // _EXAMINED)]:
        try:
            with _opened(path) as opened:
                if opened.mode not in _GREY:
                    return True
        except FAILURES:
            continue  # decoding tells what is wrong with it, or skips it
    return False


def _eight_bits(image: Image.Image, name: str) -> Image.Image:
    """Grey or RGB with eight bits a channel, whatever the mode."""
    if image.mode in _DEEP:
        levels = np.asarray(image).astype(np.int64)
        if levels.min() < 0 or levels.max() > 65535:
            raise InvalidInput(
                f"{name} must have at most 16 bits a channel; its values reach from {levels.min()} to "
                f"{levels.max()}. Convert it first."
            )
        return Image.fromarray(np.rint(levels / 257).astype(np.uint8))
    if image.mode == "F":
        raise InvalidInput(
            f"{name} holds floating-point numbers without a known range. Convert it to 8 bits."
        )
    if image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        whole = image.convert("RGBA")
        paper = Image.new("RGBA", whole.size, "white")
        shown = Image.alpha_composite(paper, whole)
        return shown.convert("L" if image.mode in ("L", "LA", "La", "1") else "RGB")
    return image.convert("L" if image.mode in ("L", "1") else "RGB")


def _square(image: Image.Image, size: int, *, crop: bool) -> Image.Image:
    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    box = (left, top, left + edge, top + edge) if crop else None
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def _words(pixels: np.ndarray) -> str:
    h, w, c = pixels.shape
    return f"{w}x{h} with {c} channel{'s' if c > 1 else ''}"
