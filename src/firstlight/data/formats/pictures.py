"""Image files as arrays of bytes."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from firstlight.core.errors import InvalidInput
from firstlight.core.progress import progress

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp", ".webp", ".tif", ".tiff", ".gif"})


def picture(path: Path, *, side: int | None = None) -> np.ndarray:
    """Decode one image file to ``h w c`` bytes with one or three channels.

    Parameters
    ----------
    path : Path
        Any format Pillow knows.
    side : int, optional
        Crop the largest centred square and average it down (or interpolate up) to this side.
    """
    try:
        with Image.open(path) as opened:
            if side is not None:
                opened.draft("RGB", (side * 2, side * 2))  # JPEG decodes faster at a fraction of the size
            image = _plain(opened, path)
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise InvalidInput(
            f"{path} is truncated or no image ({error}). Remove it or get a fresh copy."
        ) from error
    except Image.DecompressionBombError as error:
        raise InvalidInput(f"{path} is too large an image ({error}).") from error
    if side is not None:
        image = _square(image, side)
    pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def pictures(paths: Sequence[Path], *, label: str, side: int | None = None) -> np.ndarray:
    """Decode many image files, which must agree in size and channels, to ``n h w c`` bytes."""
    first = picture(paths[0], side=side)
    pixels = np.empty((len(paths), *first.shape), np.uint8)
    with progress(label, total=float(len(paths)), unit="images") as bar:
        for i, path in enumerate(paths):
            one = picture(path, side=side)
            if one.shape != first.shape:
                raise InvalidInput(
                    f"all images must have one size and number of channels; {paths[0].name} is "
                    f"{_words(first)}, {path} is {_words(one)}. Convert them to one size and mode first."
                )
            pixels[i] = one
            bar.advance()
    return pixels


def _plain(image: Image.Image, path: Path) -> Image.Image:
    if image.mode in ("L", "1"):
        return image.convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        whole = image.convert("RGBA")
        if whole.getchannel("A").getextrema() != (255, 255):
            raise InvalidInput(f"{path} is partly transparent. Paint it on a background first.")
        return whole.convert("L" if image.mode == "LA" else "RGB")
    if image.mode not in ("RGB", "P", "CMYK", "YCbCr"):
        raise InvalidInput(
            f"{path} must have 8 bits a channel; its mode is {image.mode!r}. Convert it first."
        )
    return image.convert("RGB")


def _square(image: Image.Image, side: int) -> Image.Image:
    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    box = (left, top, left + edge, top + edge)
    return image.resize((side, side), Image.Resampling.BILINEAR, box=box)


def _words(pixels: np.ndarray) -> str:
    h, w, c = pixels.shape
    return f"{w}x{h} with {c} channel{'s' if c > 1 else ''}"
