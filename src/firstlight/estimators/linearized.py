"""A network's linearisation as a classifier in scikit-learn's manner."""

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from firstlight._internal.devices import computing_on
from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight.estimators.image_rows import new_images
from firstlight.estimators.kernel_machine import KernelClassifier, no_type_check, split, store
from firstlight.measures.linearized.exact_solution import solve_linearized, solve_linearized_by_steps
from firstlight.models.building import build
from firstlight.models.linearized import LinearizedModel, linearize
from firstlight.training.loop import predictions, train
from firstlight.training.recipe import Recipe

SOLVERS = ("auto", "exact", "iterative", "sgd")
RIDGES = (0.0, 1e-8, 1e-6, 1e-4, 1e-2)
_SMALLEST_STEPPED = 1e-4  # ridge; a hundred steps or so, and ten times as many for a hundredth of it
_MOST_ROWS = 20_000  # of the tangent kernel: 3 GB, and hours beyond
_QUICK_ROWS = (
    3_000  # solved within a minute on one core; a number of rows, as a clock would change what is fitted
)
_PROBE_ROWS = 400  # of the eigendecomposition that is timed to foretell a long one
_PATIENCE = 60.0  # seconds after which a user wants to know beforehand


class LinearizedClassifier(KernelClassifier):
    r"""Classification by the first-order expansion of a network in its weights.

    Least squares on one-hot targets of :math:`f(w_0, x) + J(x) u`, either solved exactly, through the
    tangent kernel or the Jacobian, or trained by SGD. Images are centred and scaled by one number each.

    Parameters
    ----------
    model : str, optional
        Name of an architecture, see :func:`firstlight.models.available`. None takes LeNet for images and
        a fully connected network of 256 units a layer for rows without a shape or images under 12 pixels.
    width : float, default 1
        Factor on all widths, for architectures that have it.
    model_options : dict of str to object, optional
        Further options of the architecture.
    solver : str, default 'auto'
        How to solve: "exact", at most 20 000 images times classes; "iterative", any number of them, with ridges of at
        least 1e-4; "sgd"; or "auto", which solves exactly up to 3000 images times classes and trains above, so that it
        ends within about a minute. An exact solve that will take longer warns first, with an estimate.
    ridge : float or sequence of float, default RIDGES
        Ridge of the exact and the iterative solver, relative to the largest eigenvalue of the kernel. Of several, the
        one with the lowest squared error on a validation share is taken; then all images are fitted. The iterative
        solver leaves out those below 1e-4, for which it would take hundreds of epochs.
    validation : float, default 0.2
        Share of the images that chooses the ridge.
    lr, momentum, weight_decay, batch_size, epochs : float or int
        Settings of SGD; the loss is the mean over images of the sum over classes. Weight decay pulls to the
        initial weights.
    image_shape : tuple of 3 int, optional
        Channels, height and width of a row of `X`; not needed for 4-D arrays and tensors.
    random_state : int, default 0
        Decides weights, validation share and the order of the images.
    device : str, optional
        Where networks compute: "auto", "cpu" or "cuda"; by default as ``firstlight.computing_on`` says, else the
        CPU. Everything is in float64, so on "mps", which has none, the CPU computes.

    Attributes
    ----------
    model_
        The fitted :class:`firstlight.models.LinearizedModel`.
    solver_
        "exact", "iterative" or "sgd": the one that was used.
    ridge_, ridge_errors_
        The ridge taken, and the validation error of each.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 1, 6, 6))  # noise, and on half of it a bright line
    >>> X[20:, 0, 2] += 3
    >>> y = np.repeat(["noise", "line"], 20)
    >>> machine = LinearizedClassifier().fit(X[::2], y[::2])
    >>> machine.score(X[1::2], y[1::2]) > 0.8, machine.solver_
    (True, 'exact')
    """

    @no_type_check  # scikit-learn: nothing is checked before `fit`
    def __init__(
        self,
        *,
        model: str | None = None,
        width: float = 1,
        model_options: dict[str, Any] | None = None,
        solver: str = "auto",
        ridge: float | Sequence[float] = RIDGES,
        validation: float = 0.2,
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        batch_size: int = 32,
        epochs: int = 100,
        image_shape: tuple[int, int, int] | None = None,
        random_state: int = 0,
        device: str | None = None,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any) -> "LinearizedClassifier":
        """Solve or train the linearised network on one-hot targets."""
        if self.solver not in SOLVERS:
            raise unknown_name("solver", self.solver, SOLVERS)
        images, targets = self._start(X, y)
        self.mean_, self.scale_ = float(images.mean()), float(images.std()) or 1.0
        images = self._features(images)
        network = self._network(images, targets.shape[1])
        self.solver_ = self.solver
        if self.solver == "auto":
            self.solver_ = "exact" if targets.numel() <= _QUICK_ROWS else "sgd"
        with computing_on(self.device):
            if self.solver_ in ("exact", "iterative"):
                self.model_ = self._solved(network, images, targets)
            else:
                self.model_ = linearize(network)
                train(self.model_, images, targets, self._recipe(), show=False)
        return self

    def _network(self, images: Tensor, classes: int) -> nn.Module:
        shape = tuple(images.shape[1:])
        options = dict(self.model_options or {})
        if self.model is None and min(shape[1:]) < 12:
            network = build(
                "fcn", classes=classes, shape=shape, seed=self._seed, units=round(256 * self.width)
            )
        else:
            name = self.model or "lenet"
            if self.width != 1:
                options["width"] = self.width
            network = build(name, classes=classes, shape=shape, seed=self._seed, **options)
        return network.double()

    def _solved(self, network: nn.Module, images: Tensor, targets: Tensor) -> LinearizedModel:
        ridges = (self.ridge,) if isinstance(self.ridge, int | float) else tuple(self.ridge)
        if self.solver_ == "iterative":
            ridges = tuple(ridge for ridge in ridges if ridge >= _SMALLEST_STEPPED)
        else:
            if targets.numel() > _MOST_ROWS:
                raise InvalidInput(
                    f"the exact solver takes at most {_MOST_ROWS} images times classes; got {len(targets)} x "
                    f"{targets.shape[1]}. Use fewer images, solver='iterative' or solver='sgd'."
                )
            _warn_of_time(targets.numel())
        if not ridges:
            least = f" of at least {_SMALLEST_STEPPED}" if self.solver_ == "iterative" else ""
            raise InvalidInput(f"`ridge` must hold at least one number{least}; got ridge={self.ridge}.")
        self.ridge_ = float(ridges[0])
        self.ridge_errors_: tuple[float, ...] = ()
        if len(ridges) > 1:
            fitting, choosing = split(targets, self.validation, seed=self._seed, by_class=True)
            wanted = targets[choosing]
            errors = [
                float((self._answers(solved, images[choosing]) - wanted).square().sum()) / len(choosing)
                for solved in self._solutions(network, images[fitting], targets[fitting], ridges)
            ]
            self.ridge_errors_ = tuple(errors)
            self.ridge_ = float(ridges[errors.index(min(errors))])
        (model,) = self._solutions(network, images, targets, (self.ridge_,))
        return model

    def _solutions(
        self, network: nn.Module, images: Tensor, targets: Tensor, ridges: Sequence[float]
    ) -> Iterator[LinearizedModel]:
        """Solve for each ridge in turn."""
        if self.solver_ == "iterative":
            for solved in solve_linearized_by_steps(network, images, targets, ridges=ridges, show=False):
                yield solved.model
        else:
            whole = solve_linearized(network, images, targets, show=False)
            for ridge in ridges:
                if not 0 <= ridge < float("inf"):
                    raise InvalidInput(f"`ridge` must be finite and at least 0; got ridge={ridge}.")
                yield whole.solution(ridge=ridge * whole.fit.largest)

    @property
    def _seed(self) -> int:
        return int(self.random_state or 0)

    def _recipe(self) -> Recipe:
        return Recipe(
            lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay, loss="mse_sum",
            batch_size=self.batch_size, epochs=self.epochs, seed=self._seed,
        )  # fmt: skip

    def _features(self, images: Tensor) -> Tensor:
        return (images - self.mean_) / self.scale_

    def _outputs(self, X: Any) -> Tensor:
        check_is_fitted(self)
        with computing_on(self.device):
            return self._answers(self.model_, self._features(new_images(self, X)))

    @staticmethod
    def _answers(model: LinearizedModel, images: Tensor) -> Tensor:
        return predictions(model, images, batch_size=128)


def _warn_of_time(rows: int) -> None:
    """Say how long an exact solve will take, if long: two eigendecompositions, whose time grows with the cube."""
    if rows <= _QUICK_ROWS:
        return
    probe = torch.eye(_PROBE_ROWS, dtype=torch.float64) + 1e-3
    begin = time.perf_counter()
    torch.linalg.eigh(probe)
    seconds = (
        1.5 * (time.perf_counter() - begin) * (rows / _PROBE_ROWS) ** 3
    )  # one at all rows, one at four fifths
    if seconds > _PATIENCE:
        warnings.warn(
            f"The exact solve of {rows} images times classes will take about {seconds / 60:.0f} minutes. "
            "solver='sgd' or fewer images are faster.",
            stacklevel=4,
        )
