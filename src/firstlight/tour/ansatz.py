"""The tour's part on the feature ansatz: one small network against itself before training."""

from dataclasses import dataclass

from torch import nn

from firstlight.core.result import Result
from firstlight.core.shapes import Images
from firstlight.data.images import ImageData
from firstlight.insights.feature_report import FeatureReport, feature_report
from firstlight.insights.inspection import N_SHOWN
from firstlight.measures.feature_ansatz import (
    Ansatz,
    Eigenvectors,
    LayerMaps,
    ansatz_from,
    layer_maps,
    patch_gradients,
    top_eigenvectors,
)

N_IMAGES = 128


@dataclass(frozen=True, kw_only=True)
class AnsatzTour(Result):
    """What feature matrices and gradients of a network have in common.

    Parameters
    ----------
    ansatz : Ansatz
        Correlations of every layer, trained and initial, with their nulls.
    eigenvectors : tuple of Eigenvectors
        Leading ones of the first convolution.
    maps : tuple of LayerMaps
        What the convolutions look at in `shown`.
    shown : Tensor of shape (n, c, h, w)
        A few images.
    later : FeatureReport, optional
        What later papers add: the ansatz of what training changed, exponents, class variation and richness.
    """

    ansatz: Ansatz
    eigenvectors: tuple[Eigenvectors, ...]
    maps: tuple[LayerMaps, ...]
    shown: Images
    later: FeatureReport | None = None


def run_ansatz_tour(model: nn.Module, initial: nn.Module, data: ImageData, *, seed: int = 0) -> AnsatzTour:
    """Compare a convolutional network with itself before training, on images it has not seen.

    Parameters
    ----------
    model, initial : torch.nn.Module
        After and before training.
    data : ImageData
        Unseen images; 128 of them are used. A few seconds for a small network.
    seed : int, default 0
        Of the choice of images and of the nulls.
    """
    sample = data.sample(min(N_IMAGES, len(data)), seed=seed)
    images = sample.x
    trained, before = (
        patch_gradients(one, images, seed=seed, label=label)
        for one, label in ((model, "Gradients of the network"), (initial, "Gradients before training"))
    )
    pictures = [layer for layer in trained.layers if len(layer.shape) == 3]
    return AnsatzTour(
        ansatz=ansatz_from(trained, before, seed=seed),
        eigenvectors=tuple(top_eigenvectors(pictures[0], kind=kind) for kind in ("features", "gradients")),
        maps=layer_maps(model, pictures, images[:N_SHOWN]),
        shown=images[:N_SHOWN],
        later=feature_report(model, sample, initial=initial, gradients=trained, seed=seed),
    )
