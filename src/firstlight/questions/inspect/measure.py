"""Everything worth knowing of a trained network at first sight."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.forward_recorder import Recorder
from firstlight._internal.autograd.model_outputs import OutputName
from firstlight._internal.autograd.model_state import evaluating, in_full_precision, without_autocast
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz import CROSSED, FILTERS, INITIAL, Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.filter_activity import filter_activity
from firstlight.measures.feature_ansatz.filter_faults import FilterFaults, filter_faults
from firstlight.measures.feature_ansatz.layer_maps import (
    Eigenvectors,
    LayerMaps,
    layer_maps,
    top_eigenvectors,
)
from firstlight.measures.feature_ansatz.patch_gradients import LayerGradients, PatchGradients, patch_gradients
from firstlight.measures.first_layer.energy_profile import Profile, profile
from firstlight.measures.linearized.weight_change import LayerChange, layer_changes
from firstlight.models.fresh_weights import fresh_initial
from firstlight.models.kinds import as_network
from firstlight.questions.inspect.accuracy import Outcome, outcome
from firstlight.questions.inspect.newer_papers import FeatureReport, feature_report
from firstlight.questions.regime.measure import RegimeResult, regime

SMALL_IMAGES, LARGE_IMAGES = 512, 32  # images to look at, below and above 128 x 128 pixels
FAST_SMALL, FAST_LARGE = 64, 8
N_REGIME, N_REGIME_LARGE = 32, 4  # images of the tangent kernels
N_SHOWN = 6  # images in the pictures
N_VIEWS = 4  # layers in the pictures
MAP_PARTS = ("features", "gradients", "agreement", "sobel", "gradient_sobel")


@dataclass(frozen=True, kw_only=True)
class LayerSummary(Result):
    """What a layer is: its name, its class, the shape and number of its weights, and how often an image meets it."""

    name: str
    kind: str
    shape: tuple[int, ...]
    n_weights: int
    n_calls: int = 1


@dataclass(frozen=True, kw_only=True)
class Inspection(Result):
    """What :func:`inspect` measured.

    Parameters
    ----------
    name : str
        Of the model, as the reader should see it.
    n_parameters : int
        Of all layers.
    layers : tuple of LayerSummary
        Those that were measured.
    data_name, n_images, image_shape
        What the model was shown.
    outcome : Outcome
        How often the model is right, beside chance, and whether anything else here means something.
    profile : Profile or None
        Energy profile of the first convolution; None if there is none.
    ansatz : Ansatz
        Correlations of all layers with their nulls, trained and initial.
    eigenvectors : tuple of Eigenvectors
        Leading ones of the first convolution, of feature matrix and gradients.
    maps : tuple of LayerMaps
        What some of the layers look at in `shown`.
    shown : Tensor of shape (n, ...)
        A few of the images, scaled to [0, 1].
    faults : tuple of FilterFaults
        Dead and duplicate filters.
    changes : tuple of LayerChange
        Distance of every layer from its initial weights.
    initial_source : str
        Where the initial weights come from, in words.
    has_own_initial : bool
        Whether training began there; a fresh initialisation is unrelated to the model.
    regime : RegimeResult or None
        Lazy or feature learning; None if the initial weights are not known or the outputs cannot tell.
    no_regime : str
        Why there is none, in words.
    is_fast : bool
        Fewer images were taken on request.
    seconds : float
        It took.
    features : FeatureReport or None
        What later papers add: the ansatz of what changed, exponents, class variation, richness; None if the
        model cannot be run that way.
    precision : str
        How the precision of these numbers differs from that of the model, in words; empty if it does not.
    """

    name: str
    n_parameters: int
    layers: tuple[LayerSummary, ...]
    data_name: str
    n_images: int
    image_shape: tuple[int, ...]
    outcome: Outcome
    profile: Profile | None
    ansatz: Ansatz
    eigenvectors: tuple[Eigenvectors, ...]
    maps: tuple[LayerMaps, ...]
    shown: Float[Tensor, "n *shape"]
    faults: tuple[FilterFaults, ...]
    changes: tuple[LayerChange, ...]
    initial_source: str
    has_own_initial: bool
    regime: RegimeResult | None
    no_regime: str
    is_fast: bool
    seconds: float
    features: FeatureReport | None = None
    precision: str = ""

    def __repr__(self) -> str:
        """One line: all numbers would fill a terminal many times."""
        shape = " x ".join(map(str, self.image_shape))
        skipped = f", {len(self.unmeasured)} not measured" if self.unmeasured else ""
        right = "" if math.isnan(self.accuracy) else f", {self.accuracy:.1%} correct"
        return (
            f"Inspection({self.name!r}, {self.n_parameters:,} parameters, {self.n_layers} layers{skipped}; "
            f"{self.n_images} images of {shape}{right})"
        )

    @property
    def accuracy(self) -> float:
        """Share of right answers; NaN without labels."""
        return self.outcome.value

    @property
    def chance(self) -> float:
        """Share of the largest class; NaN without labels."""
        return self.outcome.chance

    @property
    def unmeasured(self) -> dict[str, str]:
        """Layers that nothing here speaks of, with the reason.

        A layer of which only the initial network has no correlation is measured all the same.
        """
        pairs = tuple(f" ({pair})" for pair in (INITIAL, CROSSED, FILTERS))
        return {name: why for name, why in self.ansatz.skipped.items() if not name.endswith(pairs)}

    @property
    def silent(self) -> tuple[FilterFaults, ...]:
        """Layers all of whose filters are dead: they contribute nothing on these images."""
        return tuple(fault for fault in self.faults if len(fault.dead) == fault.n_filters)

    @property
    def n_layers(self) -> int:
        """Number of layers that the model has, measured or not."""
        return len({layer.name for layer in self.layers} | self.unmeasured.keys())


@follows_device
def inspect(
    model: nn.Module,
    data: ImagesLike,
    *,
    initial: nn.Module | None = None,
    layers: str | Sequence[str] = "all",
    n_images: int | None = None,
    fast: bool = False,
    output_part: OutputName = None,
    output_sum: str = "estimated",
    seed: int = 0,
    name: str | None = None,
    show: bool | None = None,
    listen: Callable[[Outcome], None] = lambda outcome: None,
) -> Inspection:
    """Look at a trained network: filters, energy profile, feature ansatz, maps, movement, faults.

    The model is not changed. Turn the result into a page with
    :func:`firstlight.questions.inspect.page.inspection_page`.

    Parameters
    ----------
    model : torch.nn.Module
        Any module that maps images to outputs, on any device.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        Images as the model expects them, in any form that :func:`firstlight.data.as_images` takes; with
        labels the accuracy is measured too. Signals come as a tensor ``n c l``, volumes as ``n c d h w``.
    initial : torch.nn.Module, optional
        The model before its training. Without it a fresh initialisation serves for comparison.
    layers, output_part, output_sum
        See :func:`firstlight.measures.feature_ansatz.patch_gradients`.
    n_images : int, optional
        Maximum number of images; by default 512, or 32 if they are larger than 128 x 128.
    fast : bool, default False
        Take an eighth (a quarter of large ones); the standard errors say what that costs.
    seed : int, default 0
        Seed for the choice of images, the fresh initialisation and the nulls.
    name : str, optional
        Name of the model in the report.
    show : bool, optional
        Force the progress bars on or off.
    listen : callable, default lambda outcome: None
        Told the accuracy, which is known first.

    Examples
    --------
    >>> from firstlight import models
    >>> from firstlight.data import load
    >>> inspection = inspect(models.build("lenet", classes=8), load("photos"), n_images=8)
    >>> [row.name for row in inspection.layers]
    ['conv1', 'conv2', 'fc1', 'fc2', 'fc3']
    """
    begun = time.perf_counter()
    model, initial = as_network(model), None if initial is None else as_network(initial)
    given = tensor_or_images(data)
    images = chosen_images(given, n_images, fast, seed)
    whole, x = (one.x if isinstance(one, ImageData) else one for one in (given, images))
    before = fresh_initial(model, seed=seed) if initial is None else initial
    settings: dict[str, Any] = {
        "layers": layers,
        "output_part": output_part,
        "output_sum": output_sum,
        "seed": seed,
        "show": show,
    }
    with without_autocast(model, before) as halves:
        how_right = outcome(model, given, output_part=output_part, seed=seed)
        listen(how_right)
        trained, fresh = (
            patch_gradients(which, x, n_images=len(x), label=label, **settings)
            for which, label in ((model, "Gradients of the model"), (before, "Gradients before training"))
        )
        parameter = next(model.parameters())
        movement, why_not = regime_or_reason(model, initial, images, output_part, fast, seed, show)
        return Inspection(
            name=name or type(model).__name__,
            n_parameters=sum(p.numel() for p in model.parameters()),
            layers=layer_summaries(trained, _calls(model, x[:1])),
            data_name=str(images.meta.get("name", "images")) if isinstance(images, ImageData) else "images",
            n_images=len(x),
            image_shape=tuple(x.shape[1:]),
            outcome=how_right,
            profile=profile_or_none(model, x.to(parameter.device, parameter.dtype), seed),
            ansatz=ansatz_from(trained, fresh, seed=seed),
            eigenvectors=_eigenvectors(trained.layers),
            maps=_maps(model, _views(trained.layers), x[:N_SHOWN]),
            shown=_displayed(x[:N_SHOWN]),
            faults=faults_of(model, trained, whole, seed),
            changes=changes_of(trained, fresh),
            initial_source="a fresh initialisation" if initial is None else "given",
            has_own_initial=initial is not None,
            regime=movement,
            no_regime=why_not,
            is_fast=fast,
            features=_features(model, initial, images, trained, output_part, fast, seed, show),
            precision=precision_words(halves),
            seconds=time.perf_counter() - begun,
        )


def chosen_images(
    data: ImageData | Tensor, n_images: int | None, fast: bool, seed: int
) -> ImageData | Tensor:
    """A sample of the images, smaller if they are large or if little time should be spent."""
    x = data.x if isinstance(data, ImageData) else data
    if x.ndim not in (3, 4, 5) or len(x) == 0:
        raise InvalidInput(
            "`data` must hold images as n c h w, signals as n c l or volumes as n c d h w, with n > 0; "
            f"got {tuple(x.shape)}."
        )
    if n_images is not None and n_images < 1:
        raise InvalidInput(f"`n_images` must be at least 1; got n_images={n_images}.")
    is_large = x[0, 0].numel() > 128**2
    usual = (FAST_LARGE if fast else LARGE_IMAGES) if is_large else (FAST_SMALL if fast else SMALL_IMAGES)
    n = min(n_images or usual, len(x))
    return data.sample(n, seed=seed) if isinstance(data, ImageData) else data[:n]


def faults_of(
    model: nn.Module, gradients: PatchGradients, images: Tensor, seed: int
) -> tuple[FilterFaults, ...]:
    """Dead and duplicate filters; death is looked for on many images, as that takes forward passes only."""
    names = [layer.name for layer in gradients.layers]
    activity = filter_activity(model, images, layers=names, seed=seed)
    return tuple(
        filter_faults(layer.filters, activity.active[layer.name], n_images=activity.n_images, name=layer.name)
        for layer in gradients.layers
    )


def precision_words(halves: set[str]) -> str:
    """How the precision of what was measured differs from that of the model; empty if it does not."""
    if not halves:
        return ""
    return f"its forward pass switches to {' and '.join(sorted(halves))} by autocast; all was measured in float32"


def _calls(model: nn.Module, image: Tensor) -> dict[str, int]:
    """How often a forward pass of one image applies each layer."""
    model, _ = in_full_precision(model)
    parameter = next(model.parameters())
    recorder = Recorder(model)
    with evaluating(model):
        recorder.discover(image.to(parameter.device, parameter.dtype))
    return recorder.calls


def layer_summaries(
    agops: PatchGradients, calls: Mapping[str, int] = MappingProxyType({})
) -> tuple[LayerSummary, ...]:
    """What the measured layers are; `calls` says which of them an image meets more than once."""
    return tuple(
        LayerSummary(
            name=layer.name,
            kind=layer.kind,
            shape=(layer.filters.shape[0] * layer.filters.shape[1], *layer.shape),
            n_weights=layer.filters.numel(),
            n_calls=calls.get(layer.name, 1),
        )
        for layer in agops.layers
    )


def regime_or_reason(
    model: nn.Module,
    initial: nn.Module | None,
    images: ImageData | Tensor,
    output_part: OutputName,
    fast: bool,
    seed: int,
    show: bool | None,
) -> tuple[RegimeResult | None, str]:
    """Lazy or learning, or the reason why that is not known."""
    if initial is None:
        return None, "it needs the weights before training, as `initial` (--initial)"
    if output_part is not None:
        return None, "it needs a model that returns one tensor"
    count = len(images)
    if count < 2:
        return None, "it needs at least two images"
    one = (images.x if isinstance(images, ImageData) else images)[0, 0]
    most = N_REGIME_LARGE if one.numel() > 128**2 else N_REGIME
    try:
        return regime(
            model, images, initial=initial, n_kernel=min(most // 2 if fast else most, count), n_fit=0,
            with_ansatz=False, seed=seed, show=show,
        ), ""  # fmt: skip
    except InvalidInput as error:  # no forward-mode derivative, frozen weights, images that meet
        return None, str(error)


def _features(
    model: nn.Module,
    initial: nn.Module | None,
    images: ImageData | Tensor,
    trained: PatchGradients,
    output_part: OutputName,
    fast: bool,
    seed: int,
    show: bool | None,
) -> FeatureReport | None:
    if output_part is not None:
        return None
    one = (images.x if isinstance(images, ImageData) else images)[0, 0]
    n = (FAST_LARGE if fast else LARGE_IMAGES) if one.numel() > 128**2 else FAST_SMALL
    try:
        return feature_report(
            model, images, initial=initial, gradients=trained, n_images=n, seed=seed, show=show
        )
    except InvalidInput:  # layers that answer differently to one image and to many
        return None


def profile_or_none(model: nn.Module, x: Tensor, seed: int) -> Profile | None:
    """Energy profile of the first convolution, where there is one."""
    try:
        return profile(model, x, seed=seed)
    except InvalidInput:  # no layer over patches comes first
        return None


def _is_picture(layer: LayerGradients) -> bool:
    return len(layer.shape) == 3


def _eigenvectors(layers: Sequence[LayerGradients]) -> tuple[Eigenvectors, ...]:
    """Of the first convolution over images: others have no colours to show them in."""
    first = next((layer for layer in layers if _is_picture(layer)), None)
    if first is None or not first.covariance.any():
        return ()
    return tuple(top_eigenvectors(first, kind=kind) for kind in ("features", "gradients"))


def _views(layers: Sequence[LayerGradients]) -> list[LayerGradients]:
    """A few convolutions from the first to the last, evenly spread."""
    pictures = [layer for layer in layers if _is_picture(layer)]
    if len(pictures) <= N_VIEWS:
        return pictures
    places = torch.linspace(0, len(pictures) - 1, N_VIEWS).round().long()
    return [pictures[int(i)] for i in places]


def _maps(model: nn.Module, layers: Sequence[LayerGradients], images: Tensor) -> tuple[LayerMaps, ...]:
    """Maps of a few layers, image by image: a forward pass may loop over images and call a layer for each."""
    single = [layer_maps(model, layers, image[None]) for image in images] if layers else []
    return tuple(
        LayerMaps(
            name=maps[0].name,
            **{part: torch.cat([getattr(one, part) for one in maps]) for part in MAP_PARTS},
        )
        for maps in zip(*single, strict=True)
    )


def _displayed(x: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *shape"]:
    shown = x.detach().float().cpu()
    low, high = float(shown.min()), float(shown.max())
    if low >= 0 and high <= 1:
        return shown
    return (shown - low) / max(high - low, 1e-12)


def changes_of(trained: PatchGradients, fresh: PatchGradients) -> tuple[LayerChange, ...]:
    """Distance of every layer from its initial weights, where these are not zero."""
    # a layer that starts from zero has no distance relative to its start
    initial = {layer.name: layer.filters for layer in fresh.layers if layer.filters.any()}
    common = {layer.name: layer.filters for layer in trained.layers if layer.name in initial}
    return layer_changes(common, initial)
