"""Do labels show in the average patch? The assumption behind true and random labels agreeing."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.maths.patches import PatchGeometry, mean_patches
from firstlight.maths.pca import PCA


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
    coordinates = pca.project(mean_patches(data.x, geometry))
    members = F.one_hot(data.y, data.n_classes).double()
    coordinates = coordinates - coordinates.mean(0)
    members = members - members.mean(0)
    scale = members.norm(dim=0)[:, None] * coordinates.norm(dim=0)[None]
    tiny = 1e-12 * coordinates.norm()
    correlation: Tensor = (members.mT @ coordinates) / scale.clamp(min=1e-300)
    varies: Tensor = coordinates.norm(dim=0) > tiny
    return correlation * varies
