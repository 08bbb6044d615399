"""NumPy archives with images and labels."""

from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import FAILURES, demand_regular, demand_room_for_zip, reason_of
from firstlight.data.cache import Splits, StoredImages, stored_images

_CHANNELS = (1, 3)


def read_npz(path: Path, *, classes: tuple[str, ...] = ()) -> Splits:
    """Read `x` and `y`, and `x_test` and `y_test` if present; `x_train` and `y_train` are understood too.

    Parameters
    ----------
    path : Path
        An ``.npz`` file. Images are ``n h w``, ``n h w c`` or ``n c h w``, as bytes or as floats in [0,
        1], which are rounded to 255 steps. Labels are whole numbers. `classes`, an array of words, may
        name them.
    classes : tuple of str, default ()
        Names to use instead.
    """
    demand_room_for_zip(demand_regular(path))
    try:
        with np.load(path, allow_pickle=False) as opened:
            arrays = {name: opened[name] for name in opened.files}
    except FAILURES as error:
        raise InvalidInput(
            f"{path} is truncated or not a plain npz file ({reason_of(error)}). "
            "Save arrays of numbers with numpy.savez."
        ) from error
    arrays = {name.removesuffix("_train"): array for name, array in arrays.items()}
    if "x" not in arrays or "y" not in arrays:
        raise InvalidInput(f"{path} must hold arrays `x` and `y`; it holds {', '.join(arrays) or 'nothing'}.")
    if not classes:
        classes = _class_names(arrays, path)
    splits = {"train": _split(arrays["x"], arrays["y"], classes, path)}
    if "x_test" in arrays and "y_test" in arrays:
        splits["test"] = _split(arrays["x_test"], arrays["y_test"], classes, path)
    return splits


def _class_names(arrays: dict[str, np.ndarray], path: Path) -> tuple[str, ...]:
    if "classes" in arrays:
        return tuple(str(name) for name in arrays["classes"].reshape(-1))
    y = arrays["y"]
    if y.size == 0 or not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= max(y.size, 2):
        raise InvalidInput(f"{path}: `y` must hold class numbers 0, 1, 2, ...; got dtype {y.dtype}.")
    return tuple(str(label) for label in range(int(y.max()) + 1))


def _split(x: np.ndarray, y: np.ndarray, classes: tuple[str, ...], path: Path) -> StoredImages:
    if not np.issubdtype(y.dtype, np.integer) or y.size != len(x):
        raise InvalidInput(
            f"{path}: `y` must hold one whole number per image, {len(x)}; got {y.dtype} {y.shape}."
        )
    return stored_images(_bytes(x, path), y.reshape(-1), classes, order=_order(x, path))


def _order(x: np.ndarray, path: Path) -> str:
    if x.ndim == 3:
        return "n h w"
    if x.ndim == 4 and x.shape[3] in _CHANNELS and x.shape[1] not in _CHANNELS:
        return "n h w c"
    if x.ndim == 4 and x.shape[1] in _CHANNELS:
        return "n c h w"
    raise InvalidInput(f"{path}: `x` must be n h w, n h w c or n c h w with 1 or 3 channels; got {x.shape}.")


def _bytes(x: np.ndarray, path: Path) -> np.ndarray:
    if x.dtype == np.uint8:
        return x
    if (
        np.issubdtype(x.dtype, np.floating)
        and x.size
        and np.isfinite(x).all()
        and 0 <= x.min() <= x.max() <= 1
    ):
        steps: np.ndarray = np.rint(x * 255).astype(np.uint8)
        return steps
    raise InvalidInput(f"{path}: `x` must hold bytes, or finite floats in [0, 1]; got dtype {x.dtype}.")
