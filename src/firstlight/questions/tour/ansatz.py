"""The tour's part on the feature ansatz: one small network against itself before training."""

from dataclasses import dataclass

from torch import nn

from firstlight._internal.result import Result
from firstlight._internal.shapes import Images
from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz import Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.layer_maps import (
    Eigenvectors,
    LayerMaps,
    layer_maps,
    top_eigenvectors,
)
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.questions.inspect.measure import N_SHOWN
from firstlight.questions.inspect.newer_papers import FeatureReport, feature_report

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
