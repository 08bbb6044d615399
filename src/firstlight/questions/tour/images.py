"""The tour's part on the images: what is in them before any network sees them."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight._internal.result import Result
from firstlight._internal.shapes import Images
from firstlight.measures.first_layer.energy_profile import patch_basis
from firstlight.questions.tour.shared_trainings import Stage

N_SHOWN = 24


@dataclass(frozen=True, kw_only=True)
class ImagesTour(Result):
    """What the images are like before any network sees them.

    Parameters
    ----------
    shown, labels : Tensor of shape (n, c, h, w) or tuple of str
        Some images and their classes.
    components : Tensor of shape (m, channels, side, sides)
        Of the patches that the first layer will see, by decreasing variance.
    variances : Tensor of shape (m,)
        Of those components.
    """

    shown: Images
    labels: tuple[str, ...]
    components: Float[Tensor, "m channels side sides"]
    variances: Float[Tensor, " m"]


def run_images_tour(stage: Stage) -> ImagesTour:
    """Pick some images and decompose the patches of all."""
    shown = stage.train.sample(min(N_SHOWN, len(stage.train)), seed=stage.seed)
    layer, pca = patch_basis(stage.spec(stage.seed), stage.train)
    return ImagesTour(
        shown=shown.x,
        labels=tuple(shown.classes[int(y)] for y in shown.y),
        components=pca.basis.mT.reshape(-1, *layer.weight.shape[1:]),
        variances=pca.variances,
    )
