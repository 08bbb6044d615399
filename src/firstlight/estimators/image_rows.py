"""What the estimators accept: rows with a known image shape, arrays and tensors of images."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import validate_data
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.memory_layout import canonical

Shape = tuple[int, int, int]


def as_rows(X: Any) -> tuple[Any, Shape | None]:
    """Flatten images to rows; return the image shape if the input had one. Without channels they are grey."""
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    if isinstance(X, np.ndarray) and X.ndim == 3:
        X = X[:, None]
    if isinstance(X, np.ndarray) and X.ndim == 4:
        return X.reshape(len(X), -1), (X.shape[1], X.shape[2], X.shape[3])
    return X, None


def fitted_images(estimator: Any, X: Any, y: Any, *, classes: bool) -> tuple[Tensor, Any, Shape]:
    """Validate training data, and settle the image shape: that of the images, `image_shape`, or none.

    Without a shape every row is one pixel of many channels, and convolutions are plain layers.
    """
    rows, actual = as_rows(X)
    given = estimator.image_shape
    rows, y = validate_data(
        estimator, rows, y, dtype="numeric", multi_output=not classes, y_numeric=not classes
    )
    width = rows.shape[1]
    shape = actual or (tuple(given) if given is not None else (width, 1, 1))
    if len(shape) != 3 or int(np.prod(shape)) != width:
        raise InvalidInput(
            f"`image_shape` must be (channels, height, width) with a product of {width}, the number of columns; "
            f"got image_shape={given}."
        )
    if actual and given is not None and tuple(given) != actual:
        raise InvalidInput(f"`image_shape`={tuple(given)} differs from the shape of the images, {actual}.")
    return _images(rows, shape), y, shape


def new_images(estimator: Any, X: Any) -> Tensor:
    """Validate data for prediction against the fitted shape."""
    rows, actual = as_rows(X)
    if actual and actual != estimator.image_shape_:
        raise InvalidInput(f"images must have the shape {estimator.image_shape_}; got {actual}.")
    rows = validate_data(estimator, rows, reset=False, dtype="numeric")
    return _images(rows, estimator.image_shape_)


def _images(rows: np.ndarray, shape: Shape) -> Tensor:
    # NumPy puts arrays wherever there is room, which would decide the last bits of predictions
    return canonical(torch.from_numpy(np.array(rows, dtype=np.float64, order="C"))).reshape(len(rows), *shape)


def one_hot(codes: np.ndarray, n: int) -> Tensor:
    """Rows with a single 1."""
    return torch.nn.functional.one_hot(torch.from_numpy(codes), n).double()
