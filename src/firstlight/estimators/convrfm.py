"""Kernels that learn which patches matter: ConvRFM and Deep ConvRFM, in scikit-learn's manner."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.memory_layout import canonical
from firstlight.estimators.image_rows import new_images, one_hot
from firstlight.estimators.kernel_machine import (
    KernelClassifier,
    KernelMachine,
    KernelRegressor,
    no_type_check,
    split,
    store,
)
from firstlight.kernels.random_features import FEATURE_RIDGES, learn_features
from firstlight.kernels.rfm import RIDGES, Round, Rounds, learn_metric, random_filters
from firstlight.kernels.ridge import ridge_solver, scaled_gram

SOLVERS = ("auto", "exact", "features")
EXACT_IMAGES = 2000  # above, rounds with all gradients take more than a quarter of an hour of one core
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "none": lambda x: x}


class _LearnedKernel(KernelMachine):
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
        rounds: int = 5,
        ridges: Sequence[float] | None = None,
        agop_images: int | None = None,
        patience: int | None = 2,
        validation: float = 0.2,
        refit: bool = True,
        solver: str = "auto",
        filters: int = 256,
        regions: int = 2,
        image_shape: tuple[int, int, int] | None = None,
        precision: str = "single",
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        store(self, locals())

    def _parts(self, images: Tensor, targets: Tensor, given: Any, *, by_class: bool) -> list[Tensor]:
        """Images and targets for fitting, then for choosing."""
        if given is not None:
            x_valid, y_valid = given
            return [images, targets, x_valid, y_valid]
        fit, choose = split(targets, self.validation, seed=self.random_state, by_class=by_class)
        return [images[fit], targets[fit], images[choose], targets[choose]]

    def _choose_solver(self, images: Tensor) -> None:
        """Settle `solver_`, and say why in `solver_reason_`."""
        given: Any = self
        if given.solver not in SOLVERS:
            raise unknown_name("solver", given.solver, SOLVERS)
        patches = given.family in ("laplace", "gaussian")
        if given.solver == "features" and patches:
            raise InvalidInput(
                f"`solver` must be 'exact' or 'auto' for the family {given.family!r}, of which no filters are drawn."
            )
        n = len(images)
        if given.solver != "auto":
            self.solver_, self.solver_reason_ = given.solver, "as asked for"
        elif n <= EXACT_IMAGES:
            self.solver_, self.solver_reason_ = "exact", f"{n} images are at most {EXACT_IMAGES}"
        elif patches or tuple(images.shape[2:]) == (1, 1):
            what = "kernels on patches" if patches else "rows without an image shape"
            self.solver_, self.solver_reason_ = "exact", f"{what} have no drawn filters"
        else:
            reason = f"with {n} images, more than {EXACT_IMAGES}, kernel matrices take long"
            self.solver_, self.solver_reason_ = "features", reason
        if self.verbose:
            print(f"Solver: {self.solver_} ({self.solver_reason_}).")

    def _learn(
        self,
        parts: list[Tensor],
        depth: int | None,
        listen: Callable[[Round], None] | None,
        before: Callable[[Tensor], Tensor],
        *,
        refit: bool,
    ) -> Rounds:
        listen = listen or (_print if self.verbose else lambda result: None)
        shared: dict[str, Any] = {
            "rounds": self.rounds, "agop_images": self.agop_images, "patience": self.patience,
            "seed": self.random_state, "listen": listen, "show": None if self.verbose else False,
        }  # fmt: skip
        if self.solver_ == "exact":
            parts = [before(part) if part.ndim == 4 else part for part in parts]
            self.kernel_ = self._kernel(parts[0], depth)
            return learn_metric(
                *parts, kernel=self.kernel_, ridges=RIDGES if self.ridges is None else self.ridges,
                dtype=self._dtype(parts[0]), n_jobs=self.n_jobs, **shared,
            )  # fmt: skip
        parts = [part.to(self._dtype(part)) if part.ndim == 4 else part for part in parts]
        self.kernel_ = self._kernel(parts[0][:1], depth)
        self.machine_ = learn_features(
            *parts, geometry=self.kernel_.geometry, n_filters=self.filters, regions=self._regions, refit=refit,
            ridges=FEATURE_RIDGES if self.ridges is None else self.ridges, before=before, **shared,
        )  # fmt: skip
        return self.machine_.rounds

    @property
    def _regions(self) -> int:
        return 1 if self.readout == "gap" else self.regions

    def _solve(self, images: Tensor, targets: Tensor) -> None:
        """Solve once more with the chosen metric and ridge."""
        inner, self.scale_ = scaled_gram(
            images, kernel=self.kernel_, metric=self.metric_, dtype=self._dtype(images),
            n_jobs=self.n_jobs, show=None if self.verbose else False,
        )  # fmt: skip
        # solvers return columns one after another, a saved machine comes back row by row
        self.x_fit_ = canonical(images)
        self.dual_coef_ = canonical(ridge_solver(inner, targets)(self.ridge_))

    def _fit(
        self,
        images: Tensor,
        targets: Tensor,
        given: Any,
        listen: Callable[[Round], None] | None,
        by_class: bool,
    ) -> None:
        self._choose_solver(images)
        parts = self._parts(images, targets, given, by_class=by_class)
        whole = self.refit and given is None
        learned = self._learn(parts, None, listen, lambda maps: maps, refit=whole)
        self.rounds_, self.best_round_ = learned.rounds, learned.best
        self.metric_, self.ridge_ = learned.chosen.metric, learned.chosen.ridge
        if self.solver_ == "exact":
            self._solve(images if whole else parts[0], targets if whole else parts[1])

    def _outputs(self, X: Any) -> Tensor:
        if getattr(self, "solver_", "exact") == "exact":
            return super()._outputs(X)
        images = new_images(self, X)
        outputs: Tensor = self.machine_(images.to(self.machine_.features.filters.dtype), self._features)
        return outputs


def _print(result: Round) -> None:
    print(
        f"round {result.number}: validation error {result.error:.4f}, accuracy {result.accuracy:.1%}, "
        f"ridge {result.ridge:g}"
    )


class _RFMClassifier(KernelClassifier, _LearnedKernel):
    def _validation_data(self, X_val: Any, y_val: Any) -> tuple[Tensor, Tensor] | None:
        if X_val is None:
            return None

        codes = np.searchsorted(self.classes_, np.asarray(y_val))
        known = codes < len(self.classes_)
        if not (known.all() and (self.classes_[codes] == np.asarray(y_val)).all()):
            raise InvalidInput("`y_val` holds a class that `y` does not.")
        return new_images(self, X_val), one_hot(codes, len(self.classes_))


class ConvRFMClassifier(_RFMClassifier):
    """Classification with a convolutional kernel whose metric on patches is learned.

    Parameters
    ----------
    family, depth, size, readout, padding, stride, bias_variance, bandwidth, image_shape, precision, n_jobs
        As for :class:`CNTKClassifier`.
    rounds : int, default 5
        Updates of the metric M; round 0 is the plain kernel.
    ridges : sequence of float, optional
        Ridges to try, relative to the largest entry of the training kernel (by default RIDGES) or, with drawn features,
        to the number of images (by default FEATURE_RIDGES).
    agop_images : int, optional
        Number of training images at which gradients are taken. None takes all, with drawn features 200.
    patience : int or None, default 2
        Stop after this many rounds without a lower validation error. None runs all rounds. The chosen round is that of
        the lowest validation error in either case; with 1 the first round that is worse than the plain kernel ends it,
        and M stays the identity.
    validation : float, default 0.2
        Share of the training images that chooses round and ridge, by squared error. Give `X_val` and `y_val`
        to :meth:`fit` instead to choose by other images.
    refit : bool, default True
        Solve again with the chosen metric and ridge on all training images.
    solver : {'auto', 'exact', 'features'}, default 'auto'
        "exact" solves with the kernel matrix, whose cost grows with the square of the number of images. "features"
        draws `filters` filters of covariance M, averages their thresholded responses over regions, and solves ridge
        regression on these features: linear in the number of images, one layer whatever `depth` and `family`, and its
        round 0 is the inverse covariance of the patches. "auto" takes features above 2000 images.
    filters, regions : int, default 256 and 2
        Filters to draw with solver="features", and regions along either side; with readout="gap" there is one region.
    random_state : int, default 0
        Seed for the split and for the choice of `agop_images`.
    verbose : bool, default False
        Print every round, and show progress bars on a terminal.

    Attributes
    ----------
    metric_, ridge_
        The metric M and the ridge that were chosen.
    solver_, solver_reason_
        Which solver was taken, and why.
    rounds_, best_round_
        One :class:`firstlight.kernels.Round` for each round, and the index of the best.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 1, 6, 6))  # noise, and on half of it a bright line
    >>> X[20:, 0, 2] += 3
    >>> y = np.repeat(["noise", "line"], 20)
    >>> machine = ConvRFMClassifier(depth=2, rounds=1).fit(X[::2], y[::2])
    >>> machine.score(X[1::2], y[1::2]) > 0.8, machine.metric_.shape
    (True, torch.Size([9, 9]))
    """

    def fit(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None,
        *, listen: Callable[[Round], None] | None = None,
    ) -> "ConvRFMClassifier":  # fmt: skip
        """Alternate ridge regression and gradient outer products; keep the best round."""
        images, targets = self._start(X, y)
        self._fit(images, targets, self._validation_data(X_val, y_val), listen, by_class=True)
        return self


class ConvRFMRegressor(KernelRegressor, _LearnedKernel):
    """Regression with a convolutional kernel whose metric on patches is learned.

    Parameters and attributes as for :class:`ConvRFMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 1, 6, 6))
    >>> y = X[:, 0, 2].mean(1)  # the mean of one row
    >>> ConvRFMRegressor(depth=2, rounds=1).fit(X[::2], y[::2]).predict(X[1::2]).shape
    (20,)
    """

    def fit(self, X: Any, y: Any, *, listen: Callable[[Round], None] | None = None) -> "ConvRFMRegressor":
        """Alternate ridge regression and gradient outer products; keep the best round."""
        images, targets = self._start(X, y)
        self._fit(images, targets, None, listen, by_class=False)
        return self


class DeepConvRFMClassifier(_RFMClassifier):
    """ConvRFM layer after layer: each learns M, and random filters of covariance M make the next images.

    The kernel loses one layer whenever the features gain one. The number of feature layers is chosen by
    validation squared error; 0 is the plain ConvRFM. The published code applies no non-linearity
    between layers (`activation="none"`), the paper's algorithm the ReLU.

    Parameters
    ----------
    family, depth, size, readout, padding, stride, bias_variance, bandwidth, image_shape, precision, n_jobs
        As for :class:`CNTKClassifier`.
    rounds, ridges, agop_images, patience, validation, refit, solver, regions, random_state, verbose
        As for :class:`ConvRFMClassifier`.
    filters : int, default 64
        Number of random filters per layer.
    layers : int, optional
        Maximum number of feature layers. None takes `depth - 1`, so that the last kernel has one layer.
    activation : {'relu', 'none'}, default 'relu'
        Non-linearity between feature layers.

    Attributes
    ----------
    metric_, ridge_, solver_, solver_reason_, rounds_, best_round_
        As for :class:`ConvRFMClassifier`.
    layers_, filters_
        The :class:`firstlight.kernels.Rounds` of every depth, and the filters of every feature layer.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 1, 6, 6))  # noise, and on half of it a bright line
    >>> X[20:, 0, 2] += 3
    >>> y = np.repeat(["noise", "line"], 20)
    >>> machine = DeepConvRFMClassifier(depth=2, rounds=1, filters=4).fit(X[::2], y[::2])
    >>> machine.score(X[1::2], y[1::2]) > 0.8
    True
    """

    @no_type_check  # scikit-learn: nothing is checked before `fit`
    def __init__(
        self, *, filters: int = 64, solver: str = "auto", regions: int = 2, layers: int | None = None,
        activation: str = "relu",
        family: str = "cntk", depth: int = 3, size: int = 3, readout: str = "flatten", padding: int = 0,
        stride: int = 1, bias_variance: float = 0.0, bandwidth: float | None = None, rounds: int = 5,
        ridges: Sequence[float] | None = None, agop_images: int | None = None, patience: int | None = 2,
        validation: float = 0.2, refit: bool = True, image_shape: tuple[int, int, int] | None = None,
        precision: str = "single", random_state: int = 0, n_jobs: int | None = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        store(self, locals())

    def fit(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None,
        *, listen: Callable[[Round], None] | None = None,
    ) -> "DeepConvRFMClassifier":  # fmt: skip
        """Learn a metric, draw filters of that covariance, go on with their features."""
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)
        images, targets = self._start(X, y)
        self._choose_solver(images)
        parts = self._parts(images, targets, self._validation_data(X_val, y_val), by_class=True)
        most = self.depth - 1 if self.layers is None else self.layers
        if not 0 <= most < self.depth:
            raise InvalidInput(f"`layers` must lie in 0 .. depth - 1 = {self.depth - 1}; got layers={most}.")
        whole = self.refit and X_val is None
        layers: list[Rounds] = []
        machines: list[Any] = []
        self.filters_: list[Tensor] = []
        for layer in range(most + 1):
            layers.append(self._learn(parts, self.depth - layer, listen, self._features, refit=whole))
            machines.append((self.kernel_, getattr(self, "machine_", None)))
            if layer < most:
                self.filters_.append(self._drawn(layers[-1].chosen, self._features(parts[0][:1]), layer))
        self.layers_ = tuple(layers)
        self.best_layer_ = min(range(len(layers)), key=lambda i: layers[i].chosen.error)
        chosen = layers[self.best_layer_]
        self.rounds_, self.best_round_ = chosen.rounds, chosen.best
        self.metric_, self.ridge_ = chosen.chosen.metric, chosen.chosen.ridge
        self.filters_ = self.filters_[: self.best_layer_]
        self.kernel_, machine = machines[self.best_layer_]
        if self.solver_ == "features":
            self.machine_ = machine
        else:
            fitted = (images, targets) if whole else (parts[0], parts[1])
            self._solve(self._features(fitted[0]), fitted[1])
        return self

    def _drawn(self, chosen: Round, images: Tensor, layer: int) -> Tensor:
        side = self.kernel_.size
        seed = self.random_state * 1000 + layer
        shape = (images.shape[1], side, side)
        return canonical(random_filters(chosen.metric, self.filters, seed=seed, shape=shape))

    def _layer(self, images: Tensor, filters: Tensor) -> Tensor:
        alone = filters.shape[-1] == 1
        made = F.conv2d(
            images,
            filters.to(images.dtype),
            stride=1 if alone else self.stride,
            padding=0 if alone else self.padding,
        )
        return ACTIVATIONS[self.activation](made)

    def _features(self, images: Tensor) -> Tensor:
        for filters in self.filters_:
            images = self._layer(images, filters)
        return images


def feature_layers(machine: DeepConvRFMClassifier, X: Any) -> dict[str, Tensor]:
    """Return the images, and what each feature layer of a fitted Deep ConvRFM makes of them.

    Only the layers that validation chose are there: a machine whose ``best_layer_`` is 0 has none but the images.

    Parameters
    ----------
    machine : DeepConvRFMClassifier
        Fitted.
    X : array-like
        Images, in any form that the machine itself takes.

    Returns
    -------
    dict of str to Tensor
        "images", "feature layer 1" and so on, each with one row per image: what
        :func:`firstlight.measures.layers.class_variation.class_variation` takes.
    """
    check_is_fitted(machine)
    layers = {"images": new_images(machine, X)}
    for depth, filters in enumerate(machine.filters_, start=1):
        layers[f"feature layer {depth}"] = machine._layer([*layers.values()][-1], filters)
    return layers
