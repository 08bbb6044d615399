"""Ridge regression with a fixed convolutional kernel, in scikit-learn's manner."""

from typing import Any

from torch import Tensor

from firstlight._internal.memory_layout import canonical
from firstlight.estimators.kernel_machine import (
    KernelClassifier,
    KernelMachine,
    KernelRegressor,
    no_type_check,
    store,
)
from firstlight.kernels.ridge import ridge_solver, scaled_gram


class _FixedKernel(KernelMachine):
    @no_type_check  # scikit-learn: nothing is checked before `fit`
    def __init__(
        self,
        *,
        family: str = "cntk",
        depth: int = 3,
        size: int = 3,
        readout: str = "flatten",
        padding: int = 0,
        stride: int = 1,
        bias_variance: float = 0.0,
        bandwidth: float | None = None,
        ridge: float = 1e-3,
        image_shape: tuple[int, int, int] | None = None,
        precision: str = "single",
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    def _solve(self, images: Tensor, targets: Tensor) -> None:
        self.kernel_ = self._kernel(images)
        self.metric_ = None
        inner, self.scale_ = scaled_gram(
            images, kernel=self.kernel_, dtype=self._dtype(images), n_jobs=self.n_jobs, show=False
        )
        # solvers return columns one after another, a saved machine comes back row by row
        self.x_fit_ = canonical(images)
        self.dual_coef_ = canonical(ridge_solver(inner, targets)(self.ridge))


class CNTKClassifier(KernelClassifier, _FixedKernel):
    """Classification by kernel ridge regression with a convolutional kernel.

    Parameters
    ----------
    family : {'cntk', 'nngp', 'laplace', 'gaussian'}, default 'cntk'
        Kernel of an infinitely wide network, or (the latter two) a kernel on patches.
    depth, size, readout, padding, stride, bias_variance : int, str or float
        The network behind the kernel, see :class:`firstlight.kernels.ConvKernel`.
    bandwidth : float, optional
        Bandwidth of the patch kernels. None takes the median distance between patches.
    ridge : float, default 1e-3
        Ridge, relative to the largest entry of the training kernel.
    image_shape : tuple of 3 int, optional
        Channels, height and width of a row of `X`; not needed for 4-D arrays and tensors. Without it every
        row is one pixel of many channels: the kernel of a fully connected network.
    precision : {'single', 'double'}, default 'single'
        Precision of the kernel matrix; "single" still uses double precision where it is needed.
    n_jobs : int, optional
        Number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 1, 6, 6))  # noise, and on half of it a bright line
    >>> X[20:, 0, 2] += 3
    >>> y = np.repeat(["noise", "line"], 20)
    >>> CNTKClassifier(depth=2).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.8
    True
    """

    def fit(self, X: Any, y: Any) -> "CNTKClassifier":
        """Solve the ridge regression on one-hot targets."""
        self._solve(*self._start(X, y))
        return self


class CNTKRegressor(KernelRegressor, _FixedKernel):
    """Kernel ridge regression with a convolutional kernel; parameters as for :class:`CNTKClassifier`."""

    def fit(self, X: Any, y: Any) -> "CNTKRegressor":
        """Solve the ridge regression on centred targets."""
        self._solve(*self._start(X, y))
        return self
