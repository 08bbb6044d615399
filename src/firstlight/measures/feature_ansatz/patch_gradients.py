"""Average gradient outer products over the patches that each layer of a network sees."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.forward_recorder import Recorder
from firstlight._internal.autograd.gradient_accumulators import Accumulators, ReducedPasses, reduced_passes
from firstlight._internal.autograd.layers import (
    AppliedLayer,
    chosen_layers,
    is_selection,
    range_basis,
    unmeasured_layers,
)
from firstlight._internal.autograd.model_outputs import (
    Directions,
    OutputName,
    checked_output,
    demand_finite_outputs,
    demand_finite_weights,
    demand_one_image_at_a_time,
    output_directions,
    run,
)
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.progress import progress
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.conversion import ImagesLike, image_batches
from firstlight.data.images import ImageData
from firstlight.models.kinds import unwrapped

FiltersOf = Callable[[Mapping[str, AppliedLayer], Tensor], tuple[Mapping[str, Tensor], dict[str, str]]]

N_IMAGES = 512
_BLOCK_ELEMENTS = 24_000_000  # of all layers' outputs: about 300 MB for a forward pass that keeps them


@dataclass(frozen=True, kw_only=True)
class LayerGradients(Result):
    r"""Filters of a layer and the covariance of the gradients at its output.

    A layer with more filters than inputs (k > d) responds in a subspace of its outputs only. Gradients
    count as far as they lie in it: they are kept in an orthonormal basis U of that subspace, r = min(k, d)
    coordinates instead of k, and :math:`U^\top W` takes the place of W.

    Parameters
    ----------
    name : str
        Name of the module in the model, or of the weight where no module of its own applies it.
    kind : str
        Class of that module, or the function that was called.
    filters : Tensor of shape (g, k, d)
        Rows W, group by group, as they reached the operation: after any standardisation, normalisation
        or mask that the module puts on its weights.
    shape : tuple of int
        Shape of one filter: (channels, height, width) for a convolution, (inputs,) for a linear layer.
    parts : Tensor of shape (s, g, r, r)
        :math:`\sum g g^\top` over positions and outputs, for disjoint sets of images, in the precision of
        the model; their sum over all images divided by the number of images is Q.
    counts : Tensor of shape (s,)
        Images in each of these sets.
    is_output : bool
        Whether it gives the model's outputs. Its Q is the identity by definition.
    """

    name: str
    kind: str
    filters: Float[Tensor, "g k d"]
    shape: tuple[int, ...]
    parts: Float[Tensor, "s g r r"]
    counts: Float[Tensor, " s"]
    is_output: bool

    @property
    def covariance(self) -> Float[Tensor, "g r r"]:
        """Q, the back-propagated covariance: mean over images, sum over positions and outputs."""
        # sets are summed in float64: their float32 sums may differ by orders of magnitude
        return self.parts.sum(0, dtype=torch.float64) / self.counts.sum()

    @property
    def without_each_set(self) -> list[Float[Tensor, "g r r"]]:
        """Q without one set of images at a time, up to its scale; empty if there is but one set."""
        sets = self.counts.nonzero().flatten().tolist()
        whole = self.parts.sum(0, dtype=torch.float64)
        return [whole - self.parts[i] for i in sets] if len(sets) > 1 else []

    @property
    def reduced(self) -> Float[Tensor, "g r d"]:
        r"""W, or :math:`U^\top W` for a layer with more filters than inputs."""
        basis = range_basis(self.filters)
        # columns of W lie in the span of U, so W = U Uᵀ W, and Wᵀ Q W = (UᵀW)ᵀ (UᵀQU) (UᵀW)
        return self.filters if basis is None else basis.mT @ self.filters

    @property
    def agop(self) -> Float[Tensor, "g d d"]:
        r"""The average gradient outer product :math:`W^\top Q W`, one matrix per group."""
        reduced = self.reduced
        # ∇_{h[p]} f = Wᵀg, so ΣΣ ∇f ∇fᵀ = Wᵀ (ΣΣ ggᵀ) W
        return reduced.mT @ self.covariance @ reduced

    @property
    def feature_matrix(self) -> Float[Tensor, "g d d"]:
        r"""The feature matrix :math:`W^\top W`, one matrix per group."""
        return self.filters.mT @ self.filters


@dataclass(frozen=True, kw_only=True)
class PatchGradients(Result):
    """What the backward passes found, layer by layer.

    Parameters
    ----------
    layers : tuple of LayerGradients
        In the order in which the forward pass applies them.
    skipped : dict of str to str
        Layers of the model that were not measured, with the reason.
    n_images, n_outputs : int
        What was summed over.
    n_passes : int
        Backward passes per image.
    is_exact : bool
        Whether all outputs were summed; if not, random combinations of them were.
    note : str
        How the numbers differ from those of the model as it is; empty if they do not.
    n_fewer : int, default 0
        The fewest backward passes per image that a layer with many positions had; 0 if all had `n_passes`.
    """

    layers: tuple[LayerGradients, ...]
    skipped: dict[str, str]
    n_images: int
    n_outputs: int
    n_passes: int
    is_exact: bool
    note: str = ""
    n_fewer: int = 0

    def __getitem__(self, name: str) -> LayerGradients:
        by_name = {layer.name: layer for layer in self.layers}
        if name not in by_name:
            raise InvalidInput(f"layer {name!r} was not measured; {self.skipped.get(name, 'it is unknown')}.")
        return by_name[name]

    @property
    def method(self) -> str:
        """How the sum over outputs was taken, in words."""
        count = f"all {self.n_outputs} outputs"
        if not self.is_exact:
            count = f"{self.n_outputs} outputs by {self.n_passes} combinations"
            count += f" (as few as {self.n_fewer} for layers with many positions)" if self.n_fewer else ""
        return f"{count}, {self.note}" if self.note else count


@follows_device
def patch_gradients(
    model: nn.Module,
    data: ImagesLike,
    *,
    layers: str | Sequence[str] = "all",
    output_sum: str = "auto",
    output_part: OutputName = None,
    n_images: int = N_IMAGES,
    seed: int = 0,
    label: str = "Gradients",
    show: bool | None = None,
) -> PatchGradients:
    r"""Average gradient outer products of all layers of a network, in one backward pass per output.

    .. math::
        \mathrm{AGOP} = \frac1n \sum_x \sum_p \sum_o \nabla_{h[p]} f_o \nabla_{h[p]} f_o^\top
                      = W^\top Q W, \qquad Q = \frac1n \sum_x \sum_p \sum_o g g^\top

    A layer is linear in each patch of its input h, so the gradient with respect to a patch is
    :math:`W^\top g`, with g the gradient at the layer's output there: only k x k matrices are summed
    (d x d where k > d), whatever padding, stride, dilation or bias. Patches count as independent although
    they overlap; of a residual block only the path through the layer counts; a module that is used twice
    sums over both uses; with groups there is one matrix each.

    Layers are recorded where they are applied, so W and h are what really reached the convolution or the
    linear map: padded, standardised, normalised or masked by whatever class did it. The model runs in
    evaluation mode, in float32 if its weights are in half precision, and is left as it was.

    Parameters
    ----------
    model : torch.nn.Module
        Any module that maps images to outputs, image by image.
    data : Tensor, ImageData, DataLoader, iterable of batches, and others
        Images as the model expects them, in any form that :func:`firstlight.data.as_images` takes. Batches
        of images or of (images, labels) are read one at a time.
    layers : str or sequence of str, default 'all'
        "all", "convolutions", or names of layers. A named layer that cannot be measured is an error; with
        "all" and "convolutions" it is listed in `skipped`.
    output_sum : str, default 'auto'
        "auto" sums over all outputs if there are at most 32. With more, the leading singular directions
        of the last linear layer are summed exactly and random signs stand for the rest: unbiased, and
        independent for every image, so that :func:`firstlight.measures.feature_ansatz.ansatz.ansatz` can state a
        standard error. "exact" always sums over all. "estimated" is "auto" with down to an eighth of the
        passes for layers whose positions are samples enough: random signs there, unbiased too.
    output_part : OutputName, optional
        Which part to take if the model returns a tuple (number) or a dictionary (key).
    n_images : int, default N_IMAGES
        Maximum number of images.
    seed : int, default 0
        Seed for the random signs.
    label, show : str or bool
        Label of the progress bar, and whether to show it.

    Notes
    -----
    One forward and `n_passes` backward passes that compute no weight gradients, plus O(n p k²) per layer
    and pass. Memory does not depend on the number of images.

    References
    ----------
    .. [1] CNFA, section 2, eq. (2). The sum over outputs follows the paper's code.

    Examples
    --------
    >>> layer = nn.Conv2d(1, 2, 1, bias=False)
    >>> layer.weight.data = torch.tensor([3.0, 4.0]).reshape(2, 1, 1, 1)
    >>> model = nn.Sequential(layer, nn.Flatten(), nn.Linear(2, 1, bias=False))
    >>> model[2].weight.data = torch.ones(1, 2)
    >>> patch_gradients(model, torch.ones(5, 1, 1, 1))["0"].agop
    tensor([[[49.0000]]], dtype=torch.float64)
    """
    if n_images < 1:
        raise InvalidInput(f"`n_images` must be at least 1; got n_images={n_images}.")
    return gradients_at_filters(
        model, data, layers=layers, output_sum=output_sum, output_part=output_part, n_images=n_images, seed=seed,
        label=label, show=show,
    )  # fmt: skip


def gradients_at_filters(
    model: nn.Module,
    data: ImagesLike,
    *,
    layers: str | Sequence[str] = "all",
    filters_of: FiltersOf | None = None,
    output_sum: str = "auto",
    output_part: OutputName = None,
    n_images: int,
    seed: int,
    label: str,
    show: bool | None,
) -> PatchGradients:
    """Patch gradients as :func:`patch_gradients` gives them, also with other filters in the place of W.

    Parameters
    ----------
    model, data, layers, output_sum, output_part, n_images, seed, label, show
        As for :func:`patch_gradients`.
    filters_of : callable, optional
        Called with the layers to measure and one image. It returns the filters that take the place of W, and the
        reason for every layer that is left out; by default, W itself.
    """
    if output_sum not in ("auto", "exact", "estimated"):
        raise InvalidInput(f"`output_sum` must be 'auto', 'exact' or 'estimated'; got {output_sum!r}.")
    model, note = prepared(model)
    batches, total = _batches(data, model, n_images)
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model):
        # one image tells which layers there are; the stream may be read only once
        first, batches = _peek(batches)
        sums = GradientSums(
            model, first, layers=layers, filters_of=filters_of, output_sum=output_sum, output_part=output_part,
            seed=seed, total=total,
        )  # fmt: skip
        with progress(label, total=total, unit="images", show=show) as bar:
            for batch in batches:
                sums.add(batch, advance=bar.advance)
    return sums.result(note)


def prepared(model: nn.Module) -> tuple[nn.Module, str]:
    """The network itself, ready for gradients, and how its numbers differ from those of the model."""
    model = unwrapped(model)
    demand_differentiable(model)
    demand_finite_weights(model)
    return in_full_precision(model)


class GradientSums:
    """Gradients at the filters of a network, summed batch by batch.

    Whoever calls it holds the model in evaluation mode, with gradients enabled.

    Parameters
    ----------
    model : torch.nn.Module
        As :func:`prepared` returns it.
    first : Tensor of shape (n, ...)
        A few images; they tell which layers there are, and are not counted.
    layers, filters_of, output_sum, output_part, seed
        As for :func:`gradients_at_filters`.
    total : int, optional
        Number of all images, if it is known.
    """

    def __init__(
        self,
        model: nn.Module,
        first: Tensor,
        *,
        layers: str | Sequence[str] = "all",
        filters_of: FiltersOf | None = None,
        output_sum: str = "auto",
        output_part: OutputName = None,
        seed: int = 0,
        total: int | None = None,
    ) -> None:
        self.names = layers if isinstance(layers, str) else tuple(layers)
        self.output_sum, self.output_part = output_sum, output_part
        self.recorder = Recorder(model)
        chosen, self.skipped = discovered(self.recorder, first[:1], self.names)
        demand_one_image_at_a_time(model, first[:2], output=output_part)
        self.filters: Mapping[str, Tensor] = {}
        if filters_of is not None:
            self.filters, left_out = filters_of(chosen, first[:1])
            self.skipped |= left_out
            chosen = {name: layer for name, layer in chosen.items() if name in self.filters}
        self.chosen = chosen
        self.sums = Accumulators(chosen, filters=self.filters, generator=generator_from("output signs", seed))
        self.block = _block_size(sum(self.recorder.elements[name] for name in chosen))
        self.fewer: tuple[ReducedPasses, ...] = ()
        if output_sum == "estimated" and total is not None:
            outputs = checked_output(run(model, first[:1]), output_part, n=1).numel()
            self.fewer = reduced_passes(chosen, self.recorder.elements, n_images=total, n_outputs=outputs)
        # layers that need fewer passes hang on anchors of their own, so that most passes do not go down to them
        self.recorder.tap(chosen, self.sums.receive, apart=[some.layers for some in self.fewer])

    def add(self, images: Tensor, *, advance: Callable[[float], None] = lambda n: None) -> None:
        """Add the gradients of some images; `advance` is told how many are done."""
        for part in torch.split(images, self.block) if self.chosen else ():
            directions = _forward(self.recorder, part, self.sums, self.output_sum, self.output_part)
            _backward(self.recorder, directions, self.sums, advance, len(part), self.fewer)

    def result(self, note: str = "", *, goes_on: bool = False) -> PatchGradients:
        """What was summed so far, in memory of its own if more images are to follow."""
        sums = self.sums.snapshot() if goes_on else self.sums
        skipped = self.skipped | _without_gradients(sums) | _varying(self.recorder)
        if not is_selection(self.names):
            _demand_all(self.chosen, skipped)
        return PatchGradients(
            layers=tuple(
                _layer_gradients(layer, self.filters.get(name, layer.filters), sums)
                for name, layer in self.chosen.items()
                if name not in skipped
            ),
            skipped=skipped if is_selection(self.names) else {},
            n_images=int(sums.counts.sum()),
            n_outputs=sums.n_outputs,
            n_passes=sums.n_passes,
            is_exact=sums.is_exact and not self.fewer,
            note=note,
            n_fewer=self.fewer[-1].n_passes if self.fewer else 0,
        )


def discovered(
    recorder: Recorder, image: Tensor, names: str | tuple[str, ...]
) -> tuple[dict[str, AppliedLayer], dict[str, str]]:
    """Layers to measure, and those of the model that cannot be, with the reason."""
    model = recorder.model
    applied = run(model, image, forward=recorder.discover)
    skipped = unmeasured_layers(model, applied, recorder.called)
    chosen = chosen_layers(model, applied, names)
    if chosen:
        return chosen, skipped
    reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
    raise InvalidInput(
        f"the model must apply a convolution or a linear layer; {type(model).__name__} has none that can be "
        f"measured{'. ' + reasons if reasons else ''}."
    )


def _layer_gradients(layer: AppliedLayer, filters: Tensor, sums: Accumulators) -> LayerGradients:
    return LayerGradients(
        name=layer.name,
        kind=layer.kind,
        filters=filters,
        shape=layer.shape,
        parts=sums.parts(layer.name),
        counts=sums.counts.clone(),
        is_output=layer.name in sums.output_layers,
    )


def _forward(
    recorder: Recorder, images: Tensor, sums: Accumulators, output_sum: str, output_part: OutputName
) -> tuple[Tensor, Directions]:
    model = recorder.model
    result = checked_output(recorder.forward(images), output_part, n=len(images))
    if not result.requires_grad:
        raise InvalidInput(
            f"no gradient can be taken of {type(model).__name__}: its outputs do not depend on its layers "
            "through differentiable operations. Remove no_grad, argmax or detach from its forward."
        )
    demand_finite_outputs(model, result)
    # the last linear layer tells which outputs vary together: its leading directions are the ones worth exact passes
    source = recorder.source(result)
    # outputs that are images count with every pixel
    flat = result.flatten(1) if result.ndim > 1 else result[:, None]
    last = source if source and sums.layers[source[0]].is_linear and result.ndim == 2 else None
    directions = output_directions(
        None if last is None else sums.layers[last[0]].weight,
        flat.shape[1],
        exact=output_sum == "exact",
        known=sums.directions,
    )
    if source is not None:
        sums.output_layers.add(source[0])
    sums.begin(n_images=len(images), n_outputs=flat.shape[1], directions=directions, identity=last)
    return flat, directions


def _backward(
    recorder: Recorder,
    forward: tuple[Tensor, Directions],
    sums: Accumulators,
    advance: Callable[[float], None],
    n: int,
    fewer: Sequence[ReducedPasses] = (),
) -> None:
    """All passes as deep as layers need them, then fewer of them deeper for layers with many positions."""
    flat, directions = forward
    apart = frozenset(name for some in fewer for name in some.layers)
    # a backward pass reaches only as deep as the anchor it asks for: deep layers with few positions get every pass
    rounds = [(recorder.anchor, directions, frozenset(sums.layers) - apart)]
    for anchor, some in zip(recorder.anchors, fewer, strict=True):
        rounds.append((anchor, some.directions(flat.shape[1]), some.layers))
    passes_left = total = sum(taken.n_passes for _, taken, wanted in rounds if wanted)
    for anchor, taken, wanted in rounds:
        sums.wanted = wanted
        # every cotangent v: J → Jᵀv at the output of each layer on the way, where `sums` receives it
        for cotangent in taken.cotangents(n, like=flat, generator=sums.generator) if wanted else ():
            passes_left -= 1
            torch.autograd.grad(
                flat, anchor, cotangent, retain_graph=passes_left > 0, allow_unused=bool(fewer)
            )
            advance(n / total)
    recorder.forget()


def _without_gradients(sums: Accumulators) -> dict[str, str]:
    reason = "no gradient reaches it: it runs under no_grad, or the chosen output does not use it"
    return {name: reason for name in sums.layers if name not in sums.reached}


def _varying(recorder: Recorder) -> dict[str, str]:
    # W must be one matrix for all images, or WᵀQW is not the AGOP
    reason = "its weights, or whether it is applied at all, depend on the images"
    return {
        name: reason
        for base in recorder.varying
        for name in ([key for key in recorder.layers if key.partition(" (")[0] == base] or [base])
    }


def _demand_all(chosen: Iterable[str], skipped: Mapping[str, str]) -> None:
    for name in chosen:
        if name in skipped:
            raise InvalidInput(f"layer {name!r} cannot be measured: {skipped[name]}.")


def _block_size(elements: int) -> int:
    # at most what `_batches` cuts; fewer where the outputs of all layers would take too much memory
    return max(1, min(64, _BLOCK_ELEMENTS // max(elements, 1)))


def _batches(data: ImagesLike, model: nn.Module, n_images: int) -> tuple[Iterator[Tensor], int | None]:
    """Finite images on the model's device, a batch at a time, and their number if it is known."""
    batches = image_batches(data)
    images = batches.x if isinstance(batches, ImageData) else batches
    parameter = next(model.parameters(), None)
    if isinstance(images, Tensor):
        if images.ndim < 2 or len(images) == 0:
            raise InvalidInput(f"`data` must hold at least one image, n first; got {tuple(images.shape)}.")
        return _prepared(torch.split(images[:n_images], 64), parameter, n_images), min(n_images, len(images))
    return _prepared(images, parameter, n_images), None


def _prepared(
    batches: Iterable[Tensor | Sequence[Tensor]], parameter: Tensor | None, n_images: int
) -> Iterator[Tensor]:
    images_left = n_images
    for batch in batches:
        # a batch of (images, labels): gradients of outputs need no labels
        images = batch if isinstance(batch, Tensor) else batch[0]
        if not images.isfinite().all():
            raise InvalidInput("`data` holds NaN or infinite pixels. Remove or repair those images first.")
        if parameter is not None and images.is_floating_point():
            images = images.to(parameter.device, parameter.dtype)
        yield images.detach()[:images_left]
        images_left -= len(images)
        if images_left <= 0:
            return


def _peek(batches: Iterator[Tensor]) -> tuple[Tensor, Iterator[Tensor]]:
    first = next((batch for batch in batches if len(batch)), None)
    if first is None:
        raise InvalidInput("`data` must hold at least one image; it is empty.")

    def all_of_them() -> Iterator[Tensor]:
        yield first
        yield from batches

    return first, all_of_them()
