"""Labels by the projection of the mean patch on one component."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import noted
from firstlight.maths.patches import PatchGeometry, mean_patches
from firstlight.maths.pca import PCA


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


def _magnitudes(x: Tensor, direction: Tensor, geometry: PatchGeometry) -> Tensor:
    return (mean_patches(x, geometry) @ direction).abs()


def label_correlation(data: ImageData, pca: PCA, geometry: PatchGeometry) -> Float[Tensor, "classes m"]:
    r"""Correlation of average-patch coordinates with class membership.

    .. math:: \mathrm{corr}_i\,(K_{ij},\, 1[y_i = c])

    Rows are classes, columns components. With labels independent of the images the entries have standard
    deviation :math:`1/\sqrt{n}`, which is the null to print beside them.

    Parameters
    ----------
    data : ImageData
        Labelled images; every class must be present.
    pca : PCA
        Patch components of the same geometry.
    geometry : PatchGeometry
        Which patches.

    References
    ----------
    .. [1] FirstLayer, figure 5.
    """
    if (data.counts == 0).any() or data.n_classes < 2:
        raise InvalidInput("every class needs images, and at least two classes; choose another subset.")
    # K → K U: average patches in the coordinates of the components
    coordinates = pca.project(mean_patches(data.x, geometry))
    members = F.one_hot(data.y, data.n_classes).double()
    coordinates = coordinates - coordinates.mean(0)
    members = members - members.mean(0)
    scale = members.norm(dim=0)[:, None] * coordinates.norm(dim=0)[None]
    # a component along which no average patch varies has rounding for coordinates, and correlates with nothing
    tiny = 1e-12 * coordinates.norm()
    correlation: Tensor = (members.mT @ coordinates) / scale.clamp(min=1e-300)
    varies: Tensor = coordinates.norm(dim=0) > tiny
    return correlation * varies
