"""Interventions on the labels: chance, separators in few components, projections of mean patches."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions.record import check_same_shape, noted, parts
from firstlight.maths.patches import PatchGeometry, mean_patches
from firstlight.maths.pca import PCA, image_pca
from firstlight.maths.psd import psd_pinv


def random_labels(data: ImageData, *, seed: int) -> ImageData:
    """Replace every label by an independent uniform draw, fixed from then on."""
    y = torch.randint(data.n_classes, (len(data),), generator=generator_from("random labels", seed))
    return data.replace(y=y, meta=noted(data, "random_labels", seed=seed))


def shuffled_labels(data: ImageData, *, seed: int) -> ImageData:
    """Permute the labels once; every class keeps its size."""
    order = torch.randperm(len(data), generator=generator_from("shuffled labels", seed))
    return data.replace(y=data.y[order], meta=noted(data, "shuffled_labels", seed=seed))


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


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchProjectionLabels(Result):
    r"""Label images by how strongly their mean patch points along one patch component.

    Training images are sorted by :math:`|\langle K_i, p\rangle|`, largest first, and cut in equal blocks;
    class 0 holds the largest. Other splits are cut at the same values. The paper says "magnitude", which we
    read as the absolute value.

    Parameters
    ----------
    direction : Tensor of shape (d,)
        The patch component p.
    geometry : PatchGeometry
        The patches it belongs to.
    component : int
        Its index, from 0.
    thresholds : Tensor of shape (cuts,)
        Values between the blocks, decreasing.

    Notes
    -----
    Mean-patch projections on non-constant components come from the borders of the images and are strongly
    correlated with each other, so labels by component i are also labels by others.
    """

    direction: Float[Tensor, " d"]
    geometry: PatchGeometry
    component: int
    thresholds: Float[Tensor, " cuts"]

    @classmethod
    def fit(
        cls,
        train: ImageData,
        pca: PCA,
        geometry: PatchGeometry,
        component: int,
        *,
        n_classes: int = 10,
    ) -> "PatchProjectionLabels":
        """Find where to cut, from the training images.

        Equal values are never parted, so blocks are exactly equal only where no value at a cut repeats.
        """
        if not 0 <= component < pca.n_components:
            raise InvalidInput(
                f"`component` must lie in 0 .. {pca.n_components - 1}; got component={component}."
            )
        if pca.dimension != geometry.dimension(train.shape[0]):
            raise InvalidInput(
                f"`pca` must be that of patches of {geometry.dimension(train.shape[0])} numbers, those of "
                f"`geometry`; got {pca.dimension}."
            )
        if not 2 <= n_classes <= len(train):
            raise InvalidInput(
                f"`n_classes` must lie in 2 .. {len(train)}, the number of images; got n_classes={n_classes}."
            )
        direction = pca.basis[:, component]
        values = _magnitudes(train.x, direction, geometry).sort(descending=True).values
        cuts = torch.tensor([len(train) * block // n_classes for block in range(1, n_classes)])
        thresholds = (values[cuts - 1] + values[cuts]) / 2
        return cls(direction=direction, geometry=geometry, component=component, thresholds=thresholds)

    def transform(self, data: ImageData) -> ImageData:
        """Relabelled copy of any split, with classes named by their block."""
        values = _magnitudes(data.x, self.direction, self.geometry)
        y = torch.searchsorted(-self.thresholds, -values)
        classes = tuple(f"block {block}" for block in range(len(self.thresholds) + 1))
        note = noted(
            data,
            "patch_projection_labels",
            component=self.component,
            size=list(self.geometry.size),
        )
        return data.replace(y=y, classes=classes, meta=note)


def _coordinates(x: Tensor, pca: PCA) -> Float[Tensor, "n p"]:
    return torch.cat([pca.project(part.flatten(1)) for part in parts(x)])


def _magnitudes(x: Tensor, direction: Tensor, geometry: PatchGeometry) -> Tensor:
    return (mean_patches(x, geometry) @ direction).abs()


def _plane(points: Float[Tensor, "n p"], targets: Float[Tensor, " n"], ridge: float) -> tuple[Tensor, float]:
    """Ridge regression with a free intercept."""
    centre, level = points.mean(0), targets.mean()
    centred = points - centre
    covariance = centred.T @ centred / len(points)
    covariance.diagonal().add_(ridge * covariance.diagonal().mean())
    weights = psd_pinv(covariance) @ (centred.T @ (targets - level) / len(points))
    return weights, float(level - centre @ weights)
