"""What all kernel estimators share: targets, prediction, the split that chooses."""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.seeds import generator_from
from firstlight.estimators.image_rows import fitted_images, new_images, one_hot
from firstlight.kernels.gram import kernel_gram
from firstlight.kernels.kernel import ConvKernel, Kernel, PatchKernel, median_bandwidth

F = TypeVar("F", bound=Callable[..., None])

FAMILIES = ("cntk", "nngp", "laplace", "gaussian")
PRECISIONS = {"single": torch.float32, "double": torch.float64}


def no_type_check(function: F) -> F:
    """Mark a constructor that scikit-learn wants to accept anything.

    The name is the one that run-time checkers of shapes look for; the static checker still reads the types.
    """
    return function


def store(estimator: Any, parameters: dict[str, Any]) -> None:
    """Keep the arguments of a constructor under their names, and do nothing else, as scikit-learn asks."""
    vars(estimator).update({k: v for k, v in parameters.items() if k not in ("self", "__class__")})


class KernelMachine(BaseEstimator):  # type: ignore[misc]
    """A predictor ``K(x, X_fit) @ dual_coef``; subclasses say how the kernel is chosen.

    Fitted attributes: `kernel_`, `metric_` (None is the identity), `x_fit_`, `dual_coef_`, `scale_` (the
    largest entry of the training kernel, by which matrices are divided), `image_shape_`.
    """

    def _kernel(self, images: Tensor, depth: int | None = None) -> Kernel:
        """Return the kernel that the parameters describe; rows without a shape get filters of one pixel."""
        given: Any = self
        if given.family not in FAMILIES:
            raise unknown_name("family of kernels", given.family, FAMILIES)
        alone = tuple(images.shape[2:]) == (1, 1)
        window: dict[str, Any] = {
            "size": 1 if alone else given.size,
            "padding": 0 if alone else given.padding,
            "stride": 1 if alone else given.stride,
        }
        if given.family in ("laplace", "gaussian"):
            plain = PatchKernel(profile=given.family, **window)
            width = given.bandwidth
            if width is None:
                width = median_bandwidth(images, plain.geometry, seed=0) if len(images) > 1 else 1.0
            return PatchKernel(profile=given.family, bandwidth=float(width), **window)
        return ConvKernel(
            depth=depth or given.depth,
            readout=given.readout,
            bias_variance=given.bias_variance,
            kind="ntk" if given.family == "cntk" else "nngp",
            **window,
        )

    def _dtype(self, images: Tensor) -> torch.dtype:
        given: Any = self
        if given.precision not in PRECISIONS:
            raise unknown_name("precision", given.precision, PRECISIONS)
        return torch.float64 if images[0].numel() < 64 else PRECISIONS[given.precision]

    def _outputs(self, X: Any) -> Tensor:
        check_is_fitted(self)
        mine: Any = self
        images = self._features(new_images(self, X))
        values = kernel_gram(
            images, mine.x_fit_, kernel=mine.kernel_, metric=mine.metric_, dtype=self._dtype(images),
            n_jobs=mine.n_jobs, show=None if getattr(self, "verbose", False) else False,
        )  # fmt: skip
        outputs: Tensor = values / mine.scale_ @ mine.dual_coef_
        return outputs

    def _features(self, images: Tensor) -> Tensor:
        """Images as the last kernel sees them."""
        return images


class KernelClassifier(ClassifierMixin, KernelMachine):  # type: ignore[misc]
    """Least squares on one-hot targets; the class is the largest output."""

    def _start(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        check_classification_targets(y)
        images, y, self.image_shape_ = fitted_images(self, X, y, classes=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput(f"`y` must hold at least two classes; got one class, {self.classes_[0]!r}.")
        return images, one_hot(codes, len(self.classes_))

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs, one column per class; for two classes their difference."""
        outputs: np.ndarray = self._outputs(X).numpy()
        return outputs[:, 1] - outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """Class of the largest output."""
        largest = self._outputs(X).argmax(1).numpy()
        labels: np.ndarray = self.classes_[largest]
        return labels

    @property
    def predict_proba(self) -> NoReturn:
        """Refuse, and say how to get calibrated probabilities; `hasattr` is False, as scikit-learn expects."""
        raise AttributeError(
            f"{type(self).__name__} has no `predict_proba`: it is fitted by least squares, whose outputs are no "
            "probabilities. Wrap it in sklearn.calibration.CalibratedClassifierCV, which learns them from held-out "
            "images, or use `decision_function`."
        )


class KernelRegressor(RegressorMixin, KernelMachine):  # type: ignore[misc]
    """Least squares on centred targets, one or several."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _start(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        if y is None:
            raise InvalidInput("requires y to be passed, but the target y is None.")
        images, y, self.image_shape_ = fitted_images(self, X, y, classes=False)
        targets = torch.from_numpy(np.array(y, dtype=np.float64))
        self._flat = targets.ndim == 1
        targets = targets[:, None] if self._flat else targets
        self.intercept_ = targets.mean(0)
        return images, targets - self.intercept_

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets, in the shape of the training targets."""
        outputs = self._outputs(X) + self.intercept_
        predicted: np.ndarray = (outputs[:, 0] if self._flat else outputs).numpy()
        return predicted


def split(targets: Tensor, share: float, *, seed: int, by_class: bool) -> tuple[Tensor, Tensor]:
    """Indices for fitting and for choosing; every class keeps at least one image for fitting."""
    if not 0 < share < 1:
        raise InvalidInput(f"`validation` must lie between 0 and 1; got validation={share}.")
    n = len(targets)
    order = torch.randperm(n, generator=generator_from("validation", seed))
    if not by_class:
        count = max(1, round(share * n))
        if n - count < 1:
            raise InvalidInput(f"at least 2 images are needed to fit and to choose; got n_samples = {n}.")
        return order[count:], order[:count]
    codes = targets.argmax(1)[order]
    chosen = torch.zeros(n, dtype=torch.bool)
    for label in range(targets.shape[1]):
        members = (codes == label).nonzero().flatten()
        chosen[members[: min(round(share * len(members)), len(members) - 1)]] = True
    if not chosen.any():
        largest = codes.bincount().argmax()
        members = (codes == largest).nonzero().flatten()
        if len(members) < 2:
            raise InvalidInput(f"one class needs 2 images, to fit and to choose; got n_samples = {n}.")
        chosen[members[0]] = True
    return order[~chosen], order[chosen]
