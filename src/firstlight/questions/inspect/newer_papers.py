"""What later papers add to a first look at a network, in one cheap call."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz import Ansatz, centred_ansatz
from firstlight.measures.feature_ansatz.ansatz_exponent import AnsatzExponent, ansatz_exponent
from firstlight.measures.feature_ansatz.patch_gradients import PatchGradients, patch_gradients
from firstlight.measures.layers.activations import OUTPUTS, activations
from firstlight.measures.layers.class_variation import ClassVariation, class_variation
from firstlight.measures.linearized.richness import Richness, richness
from firstlight.models.kinds import as_network

Measured = TypeVar("Measured")

N_IMAGES = 64
N_ROTATED = 2  # draws of the null of an exponent: only their mean is told
NO_INITIAL = "it needs the weights before training, as `initial` (--initial)"
NO_LAYERS = "no layer sees all images in one pass"
NO_LABELS = "it needs labels, of at least two classes"


@dataclass(frozen=True, kw_only=True)
class FeatureReport(Result):
    """Centred ansatz, exponents, class variation and richness of one network.

    Parameters
    ----------
    centred : Ansatz or None
        The ansatz of what training changed.
    exponents : tuple of AnsatzExponent
        The power of the gradients that each layer is closest to.
    variation : ClassVariation or None
        Variation within classes over that between them, by depth.
    richness : Richness or None
        How much of the last features the outputs use.
    missing : dict of str to str
        Which of them are None, and why, in words.
    n_images : int
        Behind these numbers.
    """

    centred: Ansatz | None
    exponents: tuple[AnsatzExponent, ...]
    variation: ClassVariation | None
    richness: Richness | None
    missing: dict[str, str]
    n_images: int

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each number that stands on its own, with its null."""
        lines = []
        hidden = [row for row in self.centred.rows if not row.is_output] if self.centred else []
        if hidden:
            above = sum(row.is_above_null for row in hidden)
            chance = len(hidden) / (1 + min(len(row.null_pearson) for row in hidden))
            lines.append(
                f"In {above} of {len(hidden)} hidden layers, what training added follows the gradients more than every "
                f"rotated control; {chance:.1f} expected by chance."
            )
        fitted = [row for row in self.exponents if not row.is_output and not math.isnan(row.exponent)]
        if fitted:
            first = fitted[0]
            lines.append(
                f"The filters of {first.layer} are closest to the power {first.exponent:.2f} of their gradients "
                f"(rotated gradients: {float(first.null_exponent.nanmean()):.2f})."
            )
        if self.variation is not None and len(self.variation.layers) > 1:
            last = -2 if self.variation.layers[-1] == OUTPUTS else -1
            lines.append(
                f"Variation within classes is {float(self.variation.ratio[last]):.2g} times that between them in the "
                f"last features, {float(self.variation.ratio[0]):.2g} times in the images "
                f"(shuffled labels: {float(self.variation.shuffled[last].mean()):.2g})."
            )
        if self.richness is not None:
            lines.append(
                f"The outputs use the last features to {self.richness.value:.2f} (random readouts: "
                f"{float(self.richness.null.mean()):.2f}; 1 is all that is there)."
            )
        return tuple(lines)


@follows_device
def feature_report(
    model: nn.Module,
    data: ImagesLike,
    *,
    initial: nn.Module | None = None,
    gradients: PatchGradients | None = None,
    n_images: int = N_IMAGES,
    seed: int = 0,
    show: bool | None = None,
) -> FeatureReport:
    """Measure what later papers add to a first look at a network; what cannot be measured is left out with a reason.

    Parameters
    ----------
    model : torch.nn.Module
        The trained network.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        Images, in any form that :func:`firstlight.data.as_images` takes; class variation needs labels.
    initial : torch.nn.Module, optional
        The network before training, for the centred ansatz.
    gradients : PatchGradients, optional
        Of the model, if they were measured already; else they are measured on the same few images.
    n_images : int, default N_IMAGES
        Maximum number of images.
    seed : int, default 0
        Seed of the choice of images and of the nulls.
    show : bool, optional
        Force the progress bars on or off.

    Returns
    -------
    FeatureReport
        Cost: one pass over the images without, and with `initial` one with gradients; one more without
        `gradients`.
    """
    model, images = as_network(model), tensor_or_images(data)
    if n_images < 1:
        raise InvalidInput(f"`n_images` must be at least 1; got n_images={n_images}.")
    if isinstance(images, ImageData):
        images = images.sample(min(n_images, len(images)), seed=seed)
    else:
        images = images[:n_images]
    if gradients is None:
        x = images.x if isinstance(images, ImageData) else images
        gradients = patch_gradients(model, x, seed=seed, show=show)
    return report_of(model, images, initial, gradients, seed=seed, show=show)


def report_of(
    model: nn.Module,
    images: ImageData | Tensor,
    initial: nn.Module | None,
    gradients: PatchGradients,
    *,
    seed: int,
    draws: int = N_ROTATED,
    show: bool | None = None,
) -> FeatureReport:
    """The report on these very images; `draws` are those of the nulls of the exponents."""
    x = images.x if isinstance(images, ImageData) else images
    seen = activations(model, x, seed=seed)
    layers = [name for name in seen if name != OUTPUTS]
    missing: dict[str, str] = {}

    def measured(name: str, measure: Callable[[], Measured]) -> Measured | None:
        try:
            return measure()
        except InvalidInput as error:  # too few images, one class, outputs that do not vary
            missing[name] = str(error)
            return None

    def centred() -> Ansatz:
        if initial is None:
            raise InvalidInput(NO_INITIAL)
        return centred_ansatz(model, x, initial=initial, n_images=len(x), seed=seed, show=show)

    def variation() -> ClassVariation:
        if not isinstance(images, ImageData):
            raise InvalidInput(NO_LABELS)
        return class_variation(seen, images.y, seed=seed)

    def used() -> Richness:
        if not layers:
            raise InvalidInput(NO_LAYERS)
        return richness(seen[layers[-1]], seen[OUTPUTS], seed=seed)

    return FeatureReport(
        centred=measured("centred", centred),
        exponents=ansatz_exponent(gradients, draws=draws, seed=seed),
        variation=measured("variation", variation),
        richness=measured("richness", used),
        missing=missing,
        n_images=len(x),
    )
