"""A recursive feature machine as a probe: what the activations of a layer hold, beyond what a linear probe reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.estimators.convrfm import _RFMClassifier
from firstlight.estimators.kernel_machine import no_type_check, store
from firstlight.kernels.rfm import RIDGES

LINEAR_RIDGES = tuple(10.0**power for power in range(-3, 5))


class RFMProbe(_RFMClassifier):
    r"""Classify the activations of a layer with a kernel that learns which directions of them matter.

    .. math:: k_M(x, x') = \exp\big(-\|M^{1/2} (x - x')\| / \gamma\big), \qquad
              M \leftarrow \mathrm{AGOP} / \|\mathrm{AGOP}\|_F

    A linear probe finds only what a plane separates, and has as many directions as classes. This one fits ridge
    regression with a Laplace kernel, replaces M by the average gradient outer product of its own predictions, and
    repeats; round and ridge are chosen on held-out rows. A linear probe is fitted to the same rows beside it.

    *What a practitioner does with it:* where it is no better than the linear probe, the layer holds the classes
    linearly; where it is better, `directions_` are the directions to look at or to steer.

    Parameters
    ----------
    rounds : int, default 3
        Maximum number of updates of M; round 0 is the plain Laplace kernel.
    bandwidth : float, optional
        :math:`\gamma`; by default the median distance between rows.
    ridges : sequence of float, default RIDGES
        Grid of ridges, relative to the largest entry of the kernel.
    agop_images : int, optional
        Number of training rows at which gradients are taken. None takes all.
    n_directions : int, default 8
        Number of directions to keep.
    patience : int or None, default 2
        Stop after this many rounds without a lower validation error. None runs all rounds.
    validation : float, default 0.2
        Share of the training rows that chooses round and ridge, by squared error.
    random_state : int, default 0
        Seed of the split and of the choice of `agop_images`.
    n_jobs : int, optional
        Number of threads.

    Attributes
    ----------
    directions_ : array of shape (n_directions, features)
        Leading eigenvectors of `metric_`, by decreasing eigenvalue; rows, orthonormal.
    direction_shares_ : array of shape (n_directions,)
        Their shares of the trace of `metric_`. All are 1 / features where round 0 is the best: nothing was learned.
    linear_probe_ : estimator
        Ridge classifier on standardised rows, its ridge chosen by leaving one out.
    metric_, ridge_
        The metric M and the ridge that were chosen.
    rounds_, best_round_
        One :class:`firstlight.kernels.Round` for each round, and the index of the best.

    Examples
    --------
    >>> x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    >>> probe = RFMProbe().fit(x, (x[:, 0] * x[:, 1] > 0).numpy())
    >>> probe.directions_.shape
    (4, 4)
    """

    family = "laplace"
    depth = 1
    size = 1
    readout = "flatten"
    padding = 0
    stride = 1
    bias_variance = 0.0
    refit = True
    image_shape = None
    precision = "single"
    solver = "exact"
    verbose = False

    @no_type_check  # scikit-learn: nothing is checked before `fit`
    def __init__(
        self,
        *,
        rounds: int = 3,
        bandwidth: float | None = None,
        ridges: Sequence[float] = RIDGES,
        agop_images: int | None = None,
        n_directions: int = 8,
        patience: int | None = 2,
        validation: float = 0.2,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any) -> "RFMProbe":
        """Learn the metric, and fit a linear probe to the same rows."""
        if self.n_directions < 1:
            raise InvalidInput(f"`n_directions` must be at least 1; got n_directions={self.n_directions}.")
        rows, targets = self._start(_flat(X), y)
        self._fit(rows, targets, None, None, by_class=True)
        values, vectors = torch.linalg.eigh(self.metric_.double())
        count = min(self.n_directions, len(values))
        self.directions_ = vectors.flip(1)[:, :count].T.contiguous().numpy()
        self.direction_shares_ = (values.flip(0)[:count].clamp(min=0) / values.clamp(min=0).sum()).numpy()
        probe = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=LINEAR_RIDGES))
        self.linear_probe_ = probe.fit(rows.flatten(1).numpy(), self.classes_[targets.argmax(1).numpy()])
        return self

    def linear_score(self, X: Any, y: Any) -> float:
        """Accuracy of the linear probe, to hold against :meth:`score`."""
        check_is_fitted(self)
        return float(self.linear_probe_.score(np.asarray(_flat(X), dtype=np.float64), y))

    def _outputs(self, X: Any) -> Tensor:
        return super()._outputs(_flat(X))


def _flat(X: Any) -> Any:
    """Activations as rows: maps of a convolution are flattened."""
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    return X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 and len(X) else X
