"""Labels by a separator in few principal components."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import noted, parts, shuffled_labels
from firstlight.maths.pca import PCA, image_pca
from reproduce.studies.learning_order.principal_components import check_same_shape


@dataclass(frozen=True, kw_only=True, eq=False)
class SeparatorLabels(Result):
    r"""Label images of two classes by the side of a hyperplane in the leading principal components.

    The plane is the ridge regression of the labels, ±1, on P components; every point it gets wrong changes
    its label, so that the result is separable in those P dimensions:

    .. math:: y' = 1\big[\langle w, U_P^\top (x - \mu)\rangle + b > 0\big]

    Parameters
    ----------
    pca : PCA
        Of the training images, cut to P components.
    weights : Tensor of shape (p,)
        w.
    bias : float
        b.
    shape : tuple of 3 int
        Of the images, (c, h, w).
    start : str
        The labels the plane was fitted to.
    agreement : float
        Share of training images that keep the label they had before the intervention.
    """

    pca: PCA
    weights: Float[Tensor, " p"]
    bias: float
    shape: tuple[int, int, int]
    start: str
    agreement: float

    @classmethod
    def fit(
        cls,
        train: ImageData,
        n_components: int,
        *,
        start: Literal["true", "shuffled"] = "true",
        seed: int = 0,
        ridge: float = 0.0,
        pca: PCA | None = None,
    ) -> "SeparatorLabels":
        """Fit the plane on the training images.

        Parameters
        ----------
        train : ImageData
            Images of two classes.
        n_components : int
            P.
        start : {'true', 'shuffled'}, default 'true'
            "shuffled" gives labels that are unrelated to the true ones.
        seed : int, default 0
            Of the shuffle.
        ridge : float, default 0.0
            Relative to the mean variance of the P components; 0 is least squares.
        pca : PCA, optional
            Of the training images, if already known.
        """
        if train.n_classes != 2:
            raise InvalidInput(f"`train` must have 2 classes; got {train.n_classes}. Choose with `only`.")
        if start not in ("true", "shuffled"):
            raise InvalidInput(f"`start` must be 'true' or 'shuffled'; got start={start!r}.")
        if not ridge >= 0:
            raise InvalidInput(f"`ridge` must be at least 0; got ridge={ridge}.")
        pca = (image_pca(train.x) if pca is None else pca).truncated(n_components)
        labels = train if start == "true" else shuffled_labels(train, seed=seed)
        coordinates = _coordinates(train.x, pca)
        weights, bias = _plane(coordinates, 2.0 * labels.y.double() - 1, ridge)
        y = (coordinates @ weights + bias > 0).long()
        if y.min() == y.max():
            raise InvalidInput(
                f"the best separator in {n_components} components puts all images on one side. "
                "Take more components, or classes of equal size."
            )
        agreement = float((y == train.y).double().mean())
        return cls(pca=pca, weights=weights, bias=bias, shape=train.shape, start=start, agreement=agreement)

    def transform(self, data: ImageData) -> ImageData:
        """Relabelled copy of any split."""
        check_same_shape(data, self.shape)
        if data.n_classes != 2:
            raise InvalidInput(f"`data` must have 2 classes; got {data.n_classes}. Choose with `only`.")
        scores = _coordinates(data.x, self.pca) @ self.weights + self.bias
        note = noted(
            data,
            "separator_labels",
            n_components=self.pca.n_components,
            start=self.start,
            n_train=self.pca.n_samples,
        )
        return data.replace(y=(scores > 0).long(), meta=note)


def _coordinates(x: Tensor, pca: PCA) -> Float[Tensor, "n p"]:
    return torch.cat([pca.project(part.flatten(1)) for part in parts(x)])


def _plane(points: Float[Tensor, "n p"], targets: Float[Tensor, " n"], ridge: float) -> tuple[Tensor, float]:
    """Ridge regression with a free intercept."""
    centre, level = points.mean(0), targets.mean()
    centred = points - centre
    covariance = centred.T @ centred / len(points)
    covariance.diagonal().add_(ridge * covariance.diagonal().mean())
    weights = torch.linalg.pinv(covariance, hermitian=True) @ (centred.T @ (targets - level) / len(points))
    return weights, float(level - centre @ weights)
