"""Several models side by side: one training at several moments, or models of different kinds."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import OutputName
from firstlight._internal.autograd.model_state import without_autocast
from firstlight._internal.errors import FirstlightError, InvalidInput
from firstlight._internal.progress import progress
from firstlight._internal.result import Result
from firstlight._internal.table import Row, cells
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.maths.correlation import null_spread, pearson
from firstlight.maths.filter_similarity import FiltersInSingularBasis, Undefined, rotated
from firstlight.measures.feature_ansatz.ansatz import N_NULLS, TRAINED, ansatz_from
from firstlight.measures.feature_ansatz.filter_activity import FilterFaults
from firstlight.measures.feature_ansatz.patch_gradients import LayerGradients, PatchGradients, patch_gradients
from firstlight.measures.first_layer.energy_profile import Profile
from firstlight.measures.linearized.weight_change import LayerChange, layer_changes
from firstlight.models.kinds import as_network
from firstlight.questions.inspect.accuracy import Outcome, outcome
from firstlight.questions.inspect.measure import (
    chosen_images,
    precision_words,
    regime_or_reason,
)
from firstlight.questions.inspect.without_gradients import faults_of, profile_or_none
from firstlight.questions.regime.measure import RegimeResult

NOTHING = torch.zeros(0, dtype=torch.float64)  # the null of a number that could not be measured


@dataclass(frozen=True, kw_only=True)
class ComparedLayer(Result):
    r"""One layer of one of the models.

    Parameters
    ----------
    name, kind : str
        Name and class of the layer.
    shape : tuple of int
        Shape of its weights.
    is_output : bool
        Whether it gives the outputs of the model; its ansatz correlation is then 1 by definition.
    ansatz : float
        Pearson correlation of :math:`W^\top W` with the gradient outer product :math:`W^\top Q W`; NaN if undefined.
    ansatz_null : Tensor of shape (draws,)
        The same with Q rotated at random.
    centred : float
        Correlation of :math:`(W - W_0)^\top (W - W_0)` with :math:`W^\top Q W`: whether what was added to the
        weights points where the outputs are sensitive. NaN where there is no :math:`W_0` or nothing was added.
    centred_null : Tensor of shape (draws,)
        The same with Q rotated at random.
    n_filters : int
        Number of filters.
    dead : tuple of int
        Filters that respond to no image.
    change : LayerChange or None
        Distance from :math:`W_0`; None where there is none.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    is_output: bool
    ansatz: float
    ansatz_null: Float[Tensor, " draws"]
    centred: float
    centred_null: Float[Tensor, " centred_draws"]
    n_filters: int
    dead: tuple[int, ...]
    change: LayerChange | None

    def value(self, what: str) -> float:
        """Return "ansatz", "centred", the mean of one of their nulls, or "movement"; NaN where it is not known."""
        if what == "movement":
            return math.nan if self.change is None else self.change.distance
        value = getattr(self, what)
        if isinstance(value, Tensor):
            return float(value.mean()) if len(value) else math.nan
        return float(value)


@dataclass(frozen=True, kw_only=True)
class ComparedModel(Result):
    """What was measured of one of the models.

    Parameters
    ----------
    name : str
        As the reader should see it.
    n_parameters : int
        Of all layers.
    outcome : Outcome
        How often it is right.
    layers : tuple of ComparedLayer
        In the order in which images meet them.
    unmeasured : dict of str to str
        Layers that were not measured, with the reason.
    profile : Profile or None
        Energy profile of the first convolution; None if there is none.
    regime : RegimeResult or None
        Lazy or feature learning since the initial weights; None if that cannot be told.
    no_regime : str
        Why there is none, in words; empty if it was not asked for.
    precision : str
        How the precision of these numbers differs from that of the model, in words; empty if it does not.
    n_forward : int
        Images behind the dead filters.
    """

    name: str
    n_parameters: int
    outcome: Outcome
    layers: tuple[ComparedLayer, ...]
    unmeasured: dict[str, str]
    profile: Profile | None
    regime: RegimeResult | None
    no_regime: str
    precision: str = ""
    n_forward: int = 0

    @property
    def accuracy(self) -> float:
        """Share of images that are classified correctly; NaN without labels."""
        return self.outcome.value

    @property
    def hidden(self) -> tuple[ComparedLayer, ...]:
        """All layers but those that give the outputs."""
        return tuple(layer for layer in self.layers if not layer.is_output)

    @property
    def n_dead(self) -> int:
        """Dead filters of all layers."""
        return sum(len(layer.dead) for layer in self.layers)

    def mean(self, what: str) -> float:
        """Mean over hidden layers of "ansatz", "centred", one of their nulls, or "movement"; NaN if there is none."""
        values = [layer.value(what) for layer in self.hidden]
        known = [value for value in values if math.isfinite(value)]
        return sum(known) / len(known) if known else math.nan

    def numbers(self) -> dict[str, Any]:
        """What machines may want to read, by name; layers have a list of their own."""
        nulls = {
            name: self.mean(name) for name in ("ansatz", "ansatz_null", "centred", "centred_null", "movement")
        }
        regime = (math.nan, math.nan) if self.regime is None else (self.regime.score, self.regime.null)
        layers = [
            {
                "name": layer.name,
                "filters": layer.n_filters,
                "dead": list(layer.dead),
                **{name: layer.value(name) for name in nulls},
            }
            for layer in self.layers
        ]
        return {
            "name": self.name,
            "parameters": self.n_parameters,
            "accuracy": self.accuracy,
            "dead": self.n_dead,
            "unmeasured": len(self.unmeasured),
            **nulls,
            "regime": regime[0],
            "regime_null": regime[1],
            "layers": layers,
        }


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """What :func:`compare` measured.

    Parameters
    ----------
    models : tuple of ComparedModel
        Those that could be measured, in their order.
    reference : str
        Name of the model from which movement is counted.
    has_own_initial : bool
        Whether that is a model given as `initial`; otherwise it is the first of the series.
    data_name, n_images, image_shape
        What the models were shown.
    left_out : dict of str to str
        Models that could not be loaded or measured, with the reason.
    seconds : float
        Time taken.
    """

    models: tuple[ComparedModel, ...]
    reference: str
    has_own_initial: bool
    data_name: str
    n_images: int
    image_shape: tuple[int, ...]
    left_out: dict[str, str]
    seconds: float

    def _rows(self) -> list[Row]:
        rows = (
            {"model": model.name, "layer": layer.name, **cells(layer)}
            for model in self.models
            for layer in model.layers
        )
        said = {"name", "change_name"}
        return [{name: value for name, value in row.items() if name not in said} for row in rows]

    @property
    def problem(self) -> str:
        """Why nothing here means anything, if no model is better than chance; empty otherwise."""
        problems = [model.outcome.problem for model in self.models]
        return problems[-1] if all(problems) else ""

    @property
    def is_one_architecture(self) -> bool:
        """Whether all models have the same layers, by name and shape."""
        return len({tuple((layer.name, layer.shape) for layer in model.layers) for model in self.models}) == 1

    @property
    def without_counterpart(self) -> dict[str, tuple[str, ...]]:
        """Hidden layers beyond those that every model has, by model; layers correspond by their order."""
        common = min(len(model.hidden) for model in self.models)
        names = {model.name: tuple(layer.name for layer in model.hidden[common:]) for model in self.models}
        return {model: layers for model, layers in names.items() if layers}

    def profile_agreement(self) -> tuple[list[float], float]:
        """Correlation of each energy profile with that of the first model, and the bound within which chance lies.

        NaN for patches of another size, which have no components in common.
        """
        first = self.models[0].profile
        if first is None or len(first.amplitude) < 3:
            return [math.nan] * len(self.models), math.nan
        amplitudes = [None if model.profile is None else model.profile.amplitude for model in self.models]
        values = [
            math.nan
            if energy is None or len(energy) != len(first.amplitude)
            else float(pearson(energy, first.amplitude))
            for energy in amplitudes
        ]
        return values, 2 * null_spread(len(first.amplitude))


def compare(
    models: Mapping[str, nn.Module | Callable[[], nn.Module]],
    data: ImagesLike,
    *,
    initial: nn.Module | None = None,
    n_images: int | None = None,
    output_part: OutputName = None,
    output_sum: str = "auto",
    with_regime: bool = True,
    seed: int = 0,
    show: bool | None = None,
) -> Comparison:
    """Measure several models on the same images: one training at several moments, or models of different kinds.

    A model that cannot be loaded or measured is left out, with the reason in `left_out`. Turn the result
    into a page with :func:`firstlight.questions.compare.page.comparison_page`.

    Parameters
    ----------
    models : mapping of str to torch.nn.Module or callable
        Models by name, in the order of training. A function without arguments is called when its turn comes,
        so that only two models are in memory at a time.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        Images as the models expect them, in any form that :func:`firstlight.data.as_images` takes.
    initial : torch.nn.Module, optional
        The model before its training; by default movement is counted from the first of `models`.
    n_images : int, optional
        Maximum number of images; by default 64, or 8 if they are larger than 128 x 128.
    output_part, output_sum
        See :func:`firstlight.measures.feature_ansatz.patch_gradients.patch_gradients`.
    with_regime : bool, default True
        Also tell how lazy the training was, which takes most of the time.
    seed : int, default 0
        Seed for the choice of images and for the nulls.
    show : bool, optional
        Force the progress bar on or off.

    Examples
    --------
    >>> from firstlight import build, load
    >>> series = {"first": build("lenet", classes=8), "second": build("lenet", classes=8, seed=1)}
    >>> comparison = compare(series, load("photos"), n_images=4, with_regime=False)
    >>> [model.name for model in comparison.models], comparison.reference
    (['first', 'second'], 'first')
    """
    begun = time.perf_counter()
    if len(models) + (initial is not None) < 2:
        raise InvalidInput(f"`models` must hold at least 2 models to compare; got {len(models)}.")
    whole = tensor_or_images(data)
    images = chosen_images(whole, n_images, True, seed)
    look = _Look(whole, images, output_part, output_sum, with_regime, seed)
    reference = None if initial is None else look.reference(as_network(initial))
    compared: list[ComparedModel] = []
    left_out: dict[str, str] = {}
    with progress("Comparing models", total=len(models), unit="models", show=show) as bar:
        for name, given in models.items():
            bar.update(note=name)
            try:
                model = _network(given)
                with without_autocast(model, model if reference is None else reference.model) as halves:
                    agops = look.gradients(model)
                    reference = reference or _Reference(name, model, agops)
                    measured = look.at(name, model, agops, reference)
                compared.append(dataclasses.replace(measured, precision=precision_words(halves)))
            except FirstlightError as error:
                left_out[name] = str(error)
            bar.advance()
    if not compared:
        first = next(iter(left_out.values()))
        raise InvalidInput(
            f"None of the {len(left_out)} models could be measured. {next(iter(left_out))}: {first}"
        )
    assert reference is not None  # the first that was measured
    return Comparison(
        models=tuple(compared),
        reference=reference.name,
        has_own_initial=initial is not None,
        data_name=str(images.meta.get("name", "images")) if isinstance(images, ImageData) else "images",
        n_images=len(images),
        image_shape=tuple(look.x.shape[1:]),
        left_out=left_out,
        seconds=time.perf_counter() - begun,
    )


def _network(given: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """The model, or what the function returns; an exported program can be called, but is no function."""
    is_function = not isinstance(given, nn.Module | torch.export.ExportedProgram)
    return as_network(given() if is_function else given)


class _Look:
    """The images and settings with which every model is measured."""

    def __init__(
        self,
        whole: ImageData | Tensor,
        images: ImageData | Tensor,
        output_part: OutputName,
        output_sum: str,
        with_regime: bool,
        seed: int,
    ) -> None:
        self.images, self.output_part, self.output_sum = images, output_part, output_sum
        self.with_regime, self.seed = with_regime, seed
        self.whole_data = whole
        self.whole, self.x = (one.x if isinstance(one, ImageData) else one for one in (whole, images))

    def gradients(self, model: nn.Module) -> PatchGradients:
        """Gradient outer products of all layers."""
        return patch_gradients(
            model, self.x, output_part=self.output_part, output_sum=self.output_sum, n_images=len(self.x),
            seed=self.seed, show=False,
        )  # fmt: skip

    def reference(self, initial: nn.Module) -> "_Reference":
        """The model before training, which is no part of the series."""
        with without_autocast(initial):
            return _Reference("the initial model", initial, self.gradients(initial))

    def at(
        self, name: str, model: nn.Module, agops: PatchGradients, reference: "_Reference"
    ) -> ComparedModel:
        """Everything about one model."""
        parameter = next(model.parameters())
        regime, no_regime = self._regime(model, reference)
        faults = faults_of(model, agops.layers, self.whole, self.seed)
        return ComparedModel(
            name=name,
            n_parameters=sum(p.numel() for p in model.parameters()),
            outcome=outcome(model, self.whole_data, output_part=self.output_part, seed=self.seed),
            layers=tuple(self._layers(agops, faults, reference.filters)),
            n_forward=faults[0].n_images,
            unmeasured=dict(agops.skipped),
            profile=profile_or_none(model, self.x.to(parameter.device, parameter.dtype), self.seed),
            regime=regime,
            no_regime=no_regime,
        )

    def _layers(
        self, agops: PatchGradients, faults: Sequence[FilterFaults], initial: Mapping[str, Tensor]
    ) -> Iterator[ComparedLayer]:
        rows = {row.layer: row for row in ansatz_from(agops, seed=self.seed).pair(TRAINED)}
        for layer, fault in zip(agops.layers, faults, strict=True):
            row, before = rows.get(layer.name), initial.get(layer.name)
            if before is not None and before.shape != layer.filters.shape:
                before = None
            centred, centred_null = (
                (math.nan, NOTHING) if before is None else _centred(layer, before, self.seed)
            )
            yield ComparedLayer(
                name=layer.name,
                kind=layer.kind,
                shape=(fault.n_filters, *layer.shape),
                is_output=layer.is_output,
                ansatz=math.nan if row is None else row.pearson,
                ansatz_null=NOTHING if row is None else row.null_pearson,
                centred=centred,
                centred_null=centred_null,
                n_filters=fault.n_filters,
                dead=fault.dead,
                change=_change(layer, before),
            )

    def _regime(self, model: nn.Module, reference: "_Reference") -> tuple[RegimeResult | None, str]:
        if not self.with_regime:
            return None, ""
        if model is reference.model:
            return None, "movement is counted from this model"
        return regime_or_reason(model, reference.model, self.images, self.output_part, True, self.seed, False)


class _Reference:
    """The model from which movement is counted."""

    def __init__(self, name: str, model: nn.Module, agops: PatchGradients) -> None:
        self.name, self.model = name, model
        self.filters = {layer.name: layer.filters for layer in agops.layers}


def _change(layer: LayerGradients, initial: Tensor | None) -> LayerChange | None:
    """Distance from the initial weights, unless there are none or they are zero: distances are relative to them."""
    if initial is None or not initial.any():
        return None
    return layer_changes({layer.name: layer.filters}, {layer.name: initial})[0]


def _centred(layer: LayerGradients, initial: Tensor, seed: int) -> tuple[float, Tensor]:
    """Correlation of what was added to the weights with the gradients, and its null."""
    gradients, added = (
        FiltersInSingularBasis.of(layer.reduced),
        FiltersInSingularBasis.of(layer.filters - initial),
    )
    q = layer.covariance
    try:
        value = gradients.similarity(gradients.inner(q)[None], added).pearson
        null = gradients.similarity(rotated(q, gradients.left, draws=N_NULLS, seed=seed), added).pearson
    except Undefined:  # nothing was added, or no gradient arrives
        return math.nan, NOTHING
    return float(value), null
