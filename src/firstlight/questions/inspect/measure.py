"""Everything worth knowing of a trained network at first sight."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import OutputName
from firstlight._internal.autograd.model_state import without_autocast
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.progress import Plan, planned
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz import Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.filter_activity import ENOUGH_IMAGES, FilterFaults, filter_activity
from firstlight.measures.feature_ansatz.layer_maps import (
    Eigenvectors,
    LayerMaps,
    layer_maps,
    top_eigenvectors,
)
from firstlight.measures.feature_ansatz.patch_gradients import LayerGradients, PatchGradients, patch_gradients
from firstlight.models.fresh_weights import fresh_initial
from firstlight.models.kinds import as_network
from firstlight.questions.inspect.accuracy import is_large, n_shown, outcome_and_activity
from firstlight.questions.inspect.newer_papers import FeatureReport, feature_report
from firstlight.questions.inspect.result import Inspection
from firstlight.questions.inspect.without_gradients import (
    AppliedLayers,
    affordable_images,
    applied_layers,
    changes_of,
    demand_memory,
    faults_of,
    layer_summary,
    passes_of_gradients,
    profile_or_none,
    seconds_of_correlations,
)
from firstlight.questions.regime.measure import RegimeResult, regime

SMALL_IMAGES, LARGE_IMAGES = 512, 32  # images to look at, below and above 128 x 128 pixels
FAST_SMALL, FAST_LARGE = 64, 8
N_REGIME, N_REGIME_LARGE = 32, 4  # images of the tangent kernels
N_SHOWN = 6  # images in the pictures
N_VIEWS = 4  # layers in the pictures
LATER = ("whether the filters follow the gradients", "where the layers look", "what later papers add")
MAP_PARTS = ("features", "gradients", "agreement", "sobel", "gradient_sobel")


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
    listen: Callable[[Inspection], None] = lambda first: None,
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
        See :func:`firstlight.measures.feature_ansatz.patch_gradients.patch_gradients`.
    n_images : int, optional
        Maximum number of images; by default 512, or 32 if they are larger than 128 x 128, halved until
        gradients of a very large network take a minute or two of one core.
    fast : bool, default False
        Take an eighth (a quarter of large ones); the standard errors say what that costs.
    seed : int, default 0
        Seed for the choice of images, the fresh initialisation and the nulls.
    name : str, optional
        Name of the model in the report.
    show : bool, optional
        Force the progress bars on or off.
    listen : callable, default lambda first: None
        Given what takes no gradients as soon as it is known: accuracy, dead filters, first layer and movement. What is
        still to come is in its `pending`.

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
    look = _Look(
        model=model,
        initial=initial,
        given=given,
        n_images=n_images,
        most=most_images(given, n_images, fast),
        layers=layers,
        output_part=output_part,
        output_sum=output_sum,
        fast=fast,
        seed=seed,
        name=name or type(model).__name__,
    )
    with without_autocast(model, look.before) as halves, planned(show=show) as plan:
        demand_memory(look.applied)
        plan.expect(look.seconds())
        first = look.first(plan, begun)
        listen(first)
        if first.outcome.problem:  # nothing else would mean anything
            return dataclasses.replace(first, pending=(), precision=precision_words(halves))
        whole = look.whole(first, plan)
        return dataclasses.replace(
            whole, precision=precision_words(halves), seconds=time.perf_counter() - begun
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Look:
    """What is measured and how: first what takes forward passes only, then gradients."""

    model: nn.Module
    initial: nn.Module | None
    given: ImageData | Tensor
    n_images: int | None
    most: int
    layers: str | Sequence[str]
    output_part: OutputName
    output_sum: str
    fast: bool
    seed: int
    name: str

    @cached_property
    def before(self) -> nn.Module:
        """The initial network, or a fresh initialisation."""
        return fresh_initial(self.model, seed=self.seed) if self.initial is None else self.initial

    @cached_property
    def applied(self) -> AppliedLayers:
        """Layers of the model, and what a forward pass takes."""
        return applied_layers(self.model, self.all_x[:1], self.layers)

    @cached_property
    def images(self) -> ImageData | Tensor:
        """A sample for gradients, so many as were asked for or as do not take long."""
        n = self.most if self.n_images else affordable_images(self.applied, self.most)
        return some_images(self.given, n, self.seed)

    @cached_property
    def x(self) -> Tensor:
        """The images for gradients."""
        return self.images.x if isinstance(self.images, ImageData) else self.images

    @cached_property
    def all_x(self) -> Tensor:
        """All images, for forward passes."""
        return self.given.x if isinstance(self.given, ImageData) else self.given

    @property
    def n_initial(self) -> int:
        """Images for the gradients of the initial network: it is a control, and has the error bars of a control."""
        return max(1, len(self.x) // 4)

    @property
    def n_later(self) -> int:
        """Images on which silent filters are looked for after the first page."""
        return min(ENOUGH_IMAGES, len(self.given)) - n_shown(self.given)

    def seconds(self) -> dict[str, float]:
        """Steps and the seconds that each should take."""
        pass_ = self.applied.seconds
        correlations = seconds_of_correlations(self.applied)
        gradients = self._seconds_of_gradients(len(self.x))
        steps = {
            "accuracy and dead filters": min(n_shown(self.given), len(self.given)) * pass_ + 0.1,
            "first layer and movement": 1 + correlations / 8,
            "gradients": gradients,
            "gradients before training": self._seconds_of_gradients(self.n_initial),
            "correlations": correlations * (1 if self.initial is None else 3),
            "dead filters on 1,000 images": self.n_later * pass_,
            "maps": N_SHOWN * 6 * pass_,
            "regime": gradients / 4,
            "what later papers add": gradients / (8 if self.initial is None else 4) + correlations,
        }
        if self.initial is None:
            del steps["gradients before training"], steps["regime"]
        return {name: max(0.0, value) for name, value in steps.items()}

    def _seconds_of_gradients(self, n_images: int) -> float:
        return n_images * passes_of_gradients(self.applied, n_images) * self.applied.seconds

    def first(self, plan: Plan, begun: float) -> Inspection:
        """Accuracy, dead filters, first layer and movement: what needs no gradients."""
        applied = self.applied
        plan.begin("accuracy and dead filters")
        how_right, activity = outcome_and_activity(
            self.model, self.given, layers=[*applied.layers], output_part=self.output_part, seed=self.seed
        )
        rows = list(applied.layers.values())
        plan.begin("first layer and movement")
        parameter = next(self.model.parameters())
        before = applied_layers(self.before, self.x[:1], self.layers)
        return Inspection(
            name=self.name,
            n_parameters=sum(p.numel() for p in self.model.parameters()),
            layers=tuple(layer_summary(layer, applied.calls) for layer in rows),
            data_name=str(self.images.meta.get("name", "images"))
            if isinstance(self.images, ImageData)
            else "images",
            n_images=len(self.x),
            image_shape=tuple(self.x.shape[1:]),
            outcome=how_right,
            profile=profile_or_none(self.model, self.x.to(parameter.device, parameter.dtype), self.seed),
            ansatz=Ansatz(rows=(), n_images=len(self.x), method="", is_exact=True, skipped=applied.skipped),
            eigenvectors=(),
            maps=(),
            shown=_displayed(self.x[:N_SHOWN]),
            faults=faults_of(rows, activity),
            changes=changes_of(applied.layers, before.layers),
            initial_source="a fresh initialisation" if self.initial is None else "given",
            has_own_initial=self.initial is not None,
            regime=None,
            no_regime="",
            is_fast=self.fast,
            pending=LATER if self.initial is None else (*LATER, "whether training was lazy"),
            seconds=time.perf_counter() - begun,
        )

    def whole(self, first: Inspection, plan: Plan) -> Inspection:
        """What gradients tell, added to what forward passes told."""
        plan.begin("gradients")
        trained = self._gradients(self.model, len(self.x))
        before = None
        if self.initial is not None:
            plan.begin("gradients before training")
            before = self._gradients(self.initial, self.n_initial)
        plan.begin("correlations")
        correlations = ansatz_from(trained, before, seed=self.seed)
        plan.begin("dead filters on 1,000 images")
        faults = {fault.name: fault for fault in self._faults_of_many(first)}
        measured = [layer.name for layer in trained.layers]
        summaries = {layer.name: layer for layer in first.layers}
        plan.begin("maps")
        maps = _maps(self.model, _views(trained.layers), self.x[:N_SHOWN])
        movement, why_not = self._regime(plan)
        plan.begin("what later papers add")
        return dataclasses.replace(
            first,
            layers=tuple(summaries[name] for name in measured),
            ansatz=correlations,
            eigenvectors=_eigenvectors(trained.layers),
            maps=maps,
            faults=tuple(faults[name] for name in measured),
            changes=tuple(change for change in first.changes if change.name in measured),
            regime=movement,
            no_regime=why_not,
            features=self._features(trained),
            pending=(),
        )

    def _gradients(self, model: nn.Module, n_images: int) -> PatchGradients:
        return patch_gradients(
            model, self.x, n_images=n_images, layers=self.layers, output_part=self.output_part,
            output_sum=self.output_sum, seed=self.seed,
        )  # fmt: skip

    def _faults_of_many(self, first: Inspection) -> tuple[FilterFaults, ...]:
        """Dead filters on a thousand images, where fewer left some silent and more are there."""
        if self.n_later <= 0 or not any(fault.dead for fault in first.faults):
            return first.faults
        layers = self.applied.layers
        activity = filter_activity(self.model, self.all_x, layers=[*layers], seed=self.seed)
        return faults_of(list(layers.values()), activity)

    def _regime(self, plan: Plan) -> tuple[RegimeResult | None, str]:
        if "regime" in plan.steps:
            plan.begin("regime")
        return regime_or_reason(
            self.model, self.initial, self.images, self.output_part, self.fast, self.seed, None
        )

    def _features(self, trained: PatchGradients) -> FeatureReport | None:
        if self.output_part is not None:
            return None
        n = (FAST_LARGE if self.fast else LARGE_IMAGES) if is_large(self.x) else FAST_SMALL
        try:
            return feature_report(
                self.model, self.images, initial=self.initial, gradients=trained, n_images=n, seed=self.seed
            )
        except InvalidInput:  # layers that answer differently to one image and to many
            return None


def most_images(data: ImageData | Tensor, n_images: int | None, fast: bool) -> int:
    """Images for gradients, if time does not matter: fewer if they are large or if little time should be spent."""
    x = data.x if isinstance(data, ImageData) else data
    if x.ndim not in (3, 4, 5) or len(x) == 0:
        raise InvalidInput(
            "`data` must hold images as n c h w, signals as n c l or volumes as n c d h w, with n > 0; "
            f"got {tuple(x.shape)}."
        )
    if n_images is not None and n_images < 1:
        raise InvalidInput(f"`n_images` must be at least 1; got n_images={n_images}.")
    usual = (FAST_LARGE if fast else LARGE_IMAGES) if is_large(x) else (FAST_SMALL if fast else SMALL_IMAGES)
    return min(n_images or usual, len(x))


def some_images(data: ImageData | Tensor, n: int, seed: int) -> ImageData | Tensor:
    """A sample of the images."""
    return data.sample(n, seed=seed) if isinstance(data, ImageData) else data[:n]


def precision_words(halves: set[str]) -> str:
    """How the precision of what was measured differs from that of the model; empty if it does not."""
    if not halves:
        return ""
    return f"its forward pass switches to {' and '.join(sorted(halves))} by autocast; all was measured in float32"


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
    most = N_REGIME_LARGE if is_large(images.x if isinstance(images, ImageData) else images) else N_REGIME
    try:
        return regime(
            model, images, initial=initial, n_kernel=min(most // 2 if fast else most, count), n_fit=0,
            seed=seed, show=show,
        ), ""  # fmt: skip
    except InvalidInput as error:  # no forward-mode derivative, frozen weights, images that meet
        return None, str(error)


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
