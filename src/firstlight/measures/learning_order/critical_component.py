"""How many principal components a linear classifier needs for each example: all numbers at once."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.maths.pca import PCA, image_pca

BLOCK_NUMBERS = 1 << 21  # cumulative scores held at a time: 16 MB of float64


@dataclass(frozen=True, kw_only=True)
class CriticalComponents(Result):
    """The critical principal component of every example.

    Parameters
    ----------
    critical : integer Tensor of shape (n,)
        Smallest number P of components, from 1, such that the example is classified correctly with P and
        with every larger number; 0 where it is wrong even with all of them.
    accuracy : Tensor of shape (m,)
        Share of the examples that are right with P = 1, 2, ... components.
    ridge : float
        Relative to the mean variance.
    """

    critical: Int[Tensor, " n"]
    accuracy: Float[Tensor, " m"]
    ridge: float

    @property
    def defined(self) -> Tensor:
        """Which examples have a critical component: those that the whole classifier gets right."""
        return self.critical > 0


@dataclass(frozen=True, kw_only=True)
class ComponentClassifier(Result):
    r"""Ridge regression of one-hot labels on principal components, for all numbers of components at once.

    In principal coordinates the ridge problem is diagonal, :math:`w_j = m_j / (d_j + \rho)`: the
    classifier trained on P components *is* the first P coordinates of the one trained on all. So one
    decomposition gives every classifier, and cumulative sums give every prediction.

    Parameters
    ----------
    pca : PCA
        Components of the training images.
    weights : Tensor of shape (m, k)
        One row per component.
    bias : Tensor of shape (k,)
        Class frequencies.
    ridge : float
        ρ relative to the mean variance.
    """

    pca: PCA
    weights: Float[Tensor, "m k"]
    bias: Float[Tensor, " k"]
    ridge: float

    @classmethod
    def fit(cls, train: ImageData, *, ridge: float = 0.1, pca: PCA | None = None) -> "ComponentClassifier":
        """Fit on training images; cost of one PCA. Plain least squares (`ridge=0`) overfits badly."""
        if not ridge >= 0:
            raise InvalidInput(f"`ridge` must be at least 0; got ridge={ridge}.")
        pca = image_pca(train.x) if pca is None else pca
        targets = F.one_hot(train.y, train.n_classes).double()
        bias = targets.mean(0)
        cross = _cross_moment(train.x, targets - bias, pca)
        floor = ridge * pca.variances.sum() / pca.dimension
        held = pca.variances > pca.dimension * torch.finfo(torch.float64).eps * pca.variances[0]
        weights = torch.where(held, 1 / (pca.variances + floor).clamp(min=1e-300), 0.0)[:, None] * cross
        return cls(pca=pca, weights=weights, bias=bias, ridge=ridge)

    def critical(self, data: ImageData) -> CriticalComponents:
        """Critical component of each image of any split."""
        critical, hits = [], torch.zeros(len(self.weights), dtype=torch.float64)
        size = max(1, BLOCK_NUMBERS // max(self.weights.numel(), self.pca.dimension))
        for start in range(0, len(data), size):
            part = slice(start, start + size)
            correct = self._correct(self.pca.project(data.x[part].flatten(1)), data.y[part])
            hits += correct.double().sum(0)
            critical.append(_critical(correct))
        return CriticalComponents(critical=torch.cat(critical), accuracy=hits / len(data), ridge=self.ridge)

    def _correct(self, coordinates: Float[Tensor, "b m"], y: Int[Tensor, " b"]) -> Tensor:
        if len(self.bias) == 2:  # one difference decides
            steps = coordinates * (self.weights[:, 1] - self.weights[:, 0])
            scores = steps.cumsum(1) + (self.bias[1] - self.bias[0])
            return (scores > 0) == (y[:, None] > 0)
        scores = (coordinates[:, :, None] * self.weights).cumsum(1) + self.bias
        return scores.argmax(2) == y[:, None]


def critical_component(
    train: ImageData, data: ImageData | None = None, *, ridge: float = 0.1, pca: PCA | None = None
) -> CriticalComponents:
    """Critical principal component of each image of `data`, by default of the training images themselves.

    Parameters
    ----------
    train : ImageData
        Images from which components and classifier are learned.
    data : ImageData, optional
        The images to score.
    ridge : float, default 0.1
        Relative to the mean variance of the components.
    pca : PCA, optional
        Components of the training images, if already known.

    Returns
    -------
    CriticalComponents
        Cost of one eigendecomposition plus O(n d k). The paper projects on P components at a time and
        classifies with one separator; training a separator for each P gives the same (see
        :class:`ComponentClassifier`).
    """
    return ComponentClassifier.fit(train, ridge=ridge, pca=pca).critical(train if data is None else data)


def _cross_moment(x: Tensor, targets: Float[Tensor, "n k"], pca: PCA) -> Float[Tensor, "m k"]:
    total = torch.zeros(pca.dimension, targets.shape[1], dtype=torch.float64)
    size = max(1, BLOCK_NUMBERS // pca.dimension)
    for start in range(0, len(x), size):
        rows = x[start : start + size].flatten(1).double() - pca.mean
        total.addmm_(rows.T, targets[start : start + size])
    return pca.basis.T @ total / len(x)


def _critical(correct: Tensor) -> Int[Tensor, " b"]:
    """Position after the last mistake; 0 if the last answer is a mistake."""
    m = correct.shape[1]
    wrong = (~correct).flip(1)
    last = torch.where(wrong.any(1), m - wrong.to(torch.uint8).argmax(1), 0)  # 1-based, 0 if never wrong
    return torch.where(last == m, 0, last + 1)
