"""How far the feature matrix of a layer, or its change in training, points where the gradients point."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.forward_recorder import Recorder
from firstlight._internal.autograd.layers import CONVOLUTIONS, AppliedLayer, Layer, grouped_filters
from firstlight._internal.autograd.model_outputs import demand_finite_weights, run
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.conversion import ImagesLike, image_batches
from firstlight.data.images import ImageData
from firstlight.maths.filter_similarity import (
    FiltersInSingularBasis,
    Similarity,
    Undefined,
    feature_similarity,
    rotated,
)
from firstlight.measures.feature_ansatz.patch_gradients import (
    N_IMAGES,
    LayerGradients,
    PatchGradients,
    gradients_at_filters,
    patch_gradients,
)
from firstlight.models.kinds import unwrapped

N_NULLS = 8
TRAINED = "trained filters, trained gradients"
INITIAL = "initial filters, initial gradients"
CROSSED = "initial filters, trained gradients"
FILTERS = "initial filters, trained filters"


@dataclass(frozen=True, kw_only=True)
class AnsatzRow(Result):
    r"""Correlation of one pair of matrices at one layer, with what explains it away.

    Parameters
    ----------
    layer : str
        Its name.
    pair : str
        Which two matrices were compared; one of four fixed phrases.
    pearson, cosine : float
        Similarity over all entries; Pearson subtracts the mean entry.
    pearson_error : float
        Standard error over images and random output combinations, by leaving out sets of images in turn;
        NaN if one image was all there was, 0 where no gradient is involved.
    null_pearson, null_cosine : Tensor of shape (draws,)
        The same with Q rotated at random, one value per draw; empty where no gradient is involved.
    isotropy : float
        Cosine of Q and the identity. At 1 the correlation is 1 whatever was learned.
    n_filters, patch_size : int
        K and d.
    is_output : bool
        The layer gives the outputs themselves: its correlation is 1 by definition.
    """

    layer: str
    pair: str
    pearson: float
    cosine: float
    pearson_error: float
    null_pearson: Float[Tensor, " draws"]
    null_cosine: Float[Tensor, " draws"]
    isotropy: float
    n_filters: int
    patch_size: int
    is_output: bool

    @property
    def excess(self) -> float:
        """Pearson correlation above the mean of its null."""
        return self.pearson - float(self.null_pearson.mean()) if len(self.null_pearson) else float("nan")

    @property
    def is_above_null(self) -> bool:
        """Whether it lies above every rotated draw."""
        return bool(len(self.null_pearson)) and self.pearson > float(self.null_pearson.max())


@dataclass(frozen=True, kw_only=True)
class Ansatz(Result):
    """Correlations of all layers and pairs.

    Parameters
    ----------
    rows : tuple of AnsatzRow
        One per layer and pair.
    n_images : int
        The gradients were averaged over.
    method : str
        How the sum over outputs was taken.
    is_exact : bool
        Whether that sum is exact.
    skipped : dict of str to str
        Layers that were left out, with the reason.
    """

    rows: tuple[AnsatzRow, ...]
    n_images: int
    method: str
    is_exact: bool
    skipped: dict[str, str]

    def pair(self, name: str, *, hidden: bool = False) -> tuple[AnsatzRow, ...]:
        """Rows of one pair, layer by layer; `hidden` leaves out the layer that gives the outputs."""
        return tuple(row for row in self.rows if row.pair == name and not (hidden and row.is_output))

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, in their order."""
        return tuple(dict.fromkeys(row.layer for row in self.rows))

    def values(self, pair: str, what: str = "pearson", *, hidden: bool = False) -> Float[Tensor, " layers"]:
        """One number per layer: "pearson", "cosine", "isotropy", "excess", or the mean of a null.

        NaN where a layer has none, in the order of `layers`; `hidden` as for :meth:`pair`.
        """
        outputs = {row.layer for row in self.rows if row.is_output}
        numbers = {row.layer: _number(row, what) for row in self.pair(pair)}
        kept = [name for name in self.layers if not (hidden and name in outputs)]
        return torch.tensor([numbers.get(name, float("nan")) for name in kept], dtype=torch.float64)


@follows_device
def ansatz(
    model: nn.Module,
    data: ImagesLike,
    *,
    initial: nn.Module | None = None,
    draws: int = N_NULLS,
    seed: int = 0,
    **options: Any,
) -> Ansatz:
    r"""Correlation of the feature matrix :math:`W^\top W` with the AGOP :math:`W^\top Q W`, layer by layer.

    The ansatz says that training makes the two proportional. Both hold W, so they are alike before any
    training if Q is nearly isotropic, and it often is: compare with the values of `initial`, with the
    null (Q rotated at random, same spectrum) and with `isotropy`.

    Parameters
    ----------
    model, data, options
        As for :func:`firstlight.measures.feature_ansatz.patch_gradients.patch_gradients`.
    initial : torch.nn.Module, optional
        The model before training, or another one of its architecture. With it all four pairs are
        compared, else only the first.
    draws : int, default N_NULLS
        Number of random rotations for the null.
    seed : int, default 0
        Seed for the null and for random output combinations.

    References
    ----------
    .. [1] CNFA, section 2.1. The paper shows no null, and names its pairs only in the text.

    Examples
    --------
    >>> from firstlight import build, load
    >>> rows = ansatz(build("small", classes=8, width=0.25), load("photos", n=8), draws=2).rows
    >>> rows[0].layer, rows[0].pearson > 0.5  # high before any training: look at the null
    ('0', True)
    >>> rows[0].null_pearson.shape
    torch.Size([2])
    """
    data = image_batches(data)
    if not isinstance(data, ImageData | Tensor) and initial is not None:
        data = list(data)  # read twice: once for each model
    trained = patch_gradients(model, data, seed=seed, **options)
    before = None if initial is None else patch_gradients(initial, data, seed=seed, **options)
    return ansatz_from(trained, before, draws=draws, seed=seed)


def ansatz_from(
    trained: PatchGradients, initial: PatchGradients | None = None, *, draws: int = N_NULLS, seed: int = 0
) -> Ansatz:
    """Correlations from gradients that were measured already; arguments as for :func:`ansatz`."""
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1: no number without its null; got draws={draws}.")
    initials = {} if initial is None else {layer.name: layer for layer in initial.layers}
    rows: list[AnsatzRow] = []
    skipped = dict(trained.skipped)
    for layer in trained.layers:
        for pair, compare in _comparisons(layer, initials.get(layer.name), draws=draws, seed=seed):
            try:
                rows.append(compare())
            except Undefined as reason:
                skipped[layer.name if pair == TRAINED else f"{layer.name} ({pair})"] = str(reason)
    return Ansatz(
        rows=tuple(rows),
        n_images=trained.n_images,
        method=trained.method,
        is_exact=trained.is_exact,
        skipped=skipped,
    )


class _InBasis:
    """Gradients of a layer in the basis of its filters, computed once for all pairs that they take part in."""

    def __init__(self, layer: LayerGradients, *, draws: int, seed: int) -> None:
        self.layer, self.draws, self.seed = layer, draws, seed
        # with k > d, UᵀW stands for W: Q is known in the basis U only
        self.filters = FiltersInSingularBasis.of(layer.reduced)

    @cached_property
    def q(self) -> Float[Tensor, "g k k"]:
        return self.layer.covariance

    @cached_property
    def inner(self) -> Float[Tensor, "1 g r r"]:
        # Q → UᵀQU, all that similarities need of it
        return self.filters.inner(self.q)[None]

    @cached_property
    def null(self) -> Float[Tensor, "draws g r r"]:
        return rotated(self.q, self.filters.left, draws=self.draws, seed=self.seed)

    @cached_property
    def rest(self) -> Float[Tensor, "s g r r"] | None:
        """One set of images left out at a time; None if there is but one."""
        rest = self.layer.without_each_set
        return torch.stack([self.filters.inner(one) for one in rest]) if rest else None


def _comparisons(
    layer: LayerGradients, initial: LayerGradients | None, *, draws: int, seed: int
) -> Iterator[tuple[str, Callable[[], AnsatzRow]]]:
    trained = _InBasis(layer, draws=draws, seed=seed)
    yield TRAINED, partial(_compared, trained, TRAINED, None)
    if initial is None:
        return
    if initial.filters.shape != layer.filters.shape:
        raise InvalidInput(
            f"`initial` must have the architecture of the model; layer {layer.name!r} has "
            f"{tuple(initial.filters.shape)} instead of {tuple(layer.filters.shape)}."
        )
    # each network's Q belongs to its own outputs; only W0ᵀW0 beside the trained WᵀQW mixes the two
    before = _InBasis(initial, draws=draws, seed=seed)
    yield INITIAL, partial(_compared, before, INITIAL, None)
    yield CROSSED, partial(_compared, trained, CROSSED, before.filters)
    yield FILTERS, partial(_filter_row, layer, trained.filters, before.filters)


def _compared(gradients: _InBasis, pair: str, other: FiltersInSingularBasis | None) -> AnsatzRow:
    filters = gradients.filters
    # corr(WᵀQW, WᵀW), and corr(WᵀQW, W0ᵀW0) if `other` is W0
    similarity = filters.similarity(gradients.inner, other)
    # the same with OᵀQO: what the filters and the spectrum of Q give without any direction of the gradients
    null = filters.similarity(gradients.null, other)
    return _row(gradients.layer, pair, similarity, null, _error(gradients, other))


def _filter_row(
    layer: LayerGradients, trained: FiltersInSingularBasis, initial: FiltersInSingularBasis
) -> AnsatzRow:
    # no gradients take part, so there is no Q to rotate, and no image to leave out
    nothing = torch.zeros(0, dtype=torch.float64)
    return _row(layer, FILTERS, feature_similarity(trained, initial), Similarity(nothing, nothing), 0.0)


def _row(layer: LayerGradients, pair: str, found: Similarity, null: Similarity, error: float) -> AnsatzRow:
    return AnsatzRow(
        layer=layer.name,
        pair=pair,
        pearson=float(found.pearson),
        cosine=float(found.cosine),
        pearson_error=error,
        null_pearson=null.pearson,
        null_cosine=null.cosine,
        isotropy=isotropy(layer.covariance),
        n_filters=layer.filters.shape[0] * layer.filters.shape[1],
        patch_size=layer.filters.shape[2],
        is_output=layer.is_output,
    )


def isotropy(q: Float[Tensor, "g k k"]) -> float:
    r"""Cosine of Q and the identity, :math:`\operatorname{tr} Q / (\sqrt{k}\,\|Q\|)`.

    Examples
    --------
    >>> isotropy(torch.eye(4)[None]), isotropy(torch.ones(1, 4, 4))
    (1.0, 0.5)
    """
    # ⟨Q, I⟩ / (‖Q‖ ‖I‖), with ‖I‖ = √k over all groups together
    trace = q.diagonal(dim1=-2, dim2=-1).sum()
    return float(trace / (q.norm() * (q.shape[0] * q.shape[1]) ** 0.5))


def _error(gradients: _InBasis, other: FiltersInSingularBasis | None) -> float:
    """Standard error of the Pearson correlation by the jackknife over sets of images."""
    if gradients.layer.is_output:
        return 0.0  # Q of the outputs is the identity by definition, whatever the images
    if gradients.rest is None:
        return float("nan")
    try:
        values = gradients.filters.similarity(gradients.rest, other).pearson
    except Undefined:  # all gradients come from one set
        return float("nan")
    # jackknife: (n-1)/n Σ (v_i - v̄)² = (n-1)²/n · var, for n estimates that share all but one set of images
    n = len(values)
    return float(((n - 1) ** 2 / n * values.var()).sqrt())


def _number(row: AnsatzRow, what: str) -> float:
    if what in ("null_pearson", "null_cosine"):
        return float(getattr(row, what).mean())
    return float(getattr(row, what))


def feature_matrix(layer: Layer) -> Float[Tensor, "d d"] | Float[Tensor, "g d d"]:
    r"""The feature matrix :math:`W^\top W` of a convolution or linear layer.

    Its square root measures a patch as the layer does: :math:`\|M^{1/2} x[p]\|` is the norm of the
    layer's outputs at that position, biases apart. Unchanged when an orthogonal matrix mixes the
    filters.

    Returns
    -------
    Tensor of shape (d, d) or Tensor of shape (g, d, d)
        In float64; with groups one matrix each, over the group's share of the channels. Cost O(k d²).

    References
    ----------
    .. [1] CNFA, section 2. We do not divide by the number of filters.

    Examples
    --------
    >>> import torch
    >>> layer = nn.Conv2d(1, 2, 1, bias=False)
    >>> layer.weight.data = torch.tensor([3.0, 4.0]).reshape(2, 1, 1, 1)
    >>> feature_matrix(layer)
    tensor([[25.]], dtype=torch.float64)
    """
    if not isinstance(layer, (*CONVOLUTIONS, nn.Linear)):
        raise InvalidInput(
            f"`layer` must be a convolution or a linear layer; got {type(layer).__name__}. "
            "For a whole model use patch_gradients or ansatz, which find the layers."
        )
    if isinstance(layer.weight, nn.UninitializedParameter):
        raise InvalidInput("`layer` must have its weights; it is lazy. Run the model once before.")
    filters = grouped_filters(layer.weight, 1 if isinstance(layer, nn.Linear) else layer.groups)
    matrices = filters.mT @ filters
    return matrices[0] if len(matrices) == 1 else matrices


CENTRED = "change of the filters, trained gradients"
UNMOVED = "training did not move its weights"


@follows_device
def centred_ansatz(
    model: nn.Module,
    data: ImagesLike,
    *,
    initial: nn.Module | None = None,
    draws: int = N_NULLS,
    n_images: int = N_IMAGES,
    seed: int = 0,
    show: bool | None = None,
) -> Ansatz:
    r"""Correlation of :math:`\bar W^\top \bar W` with :math:`\bar W^\top Q \bar W`, where :math:`\bar W = W - W_0`.

    The plain ansatz compares :math:`W^\top W` with :math:`W^\top Q W`. Where Q is nearly isotropic both are
    alike before any training, since both hold the same random :math:`W_0`. Its share is taken out here. Gradient
    steps give :math:`\bar W = -\eta \sum_t \frac1n \sum_x \delta_t x^\top`, with :math:`\delta_t` the gradient of the
    loss at the layer's output: the correlation is high if these deltas point where the gradients of the outputs
    do that Q sums.

    *What a practitioner does with the number:* a layer above its null was moved along the directions that the
    outputs depend on; for a layer at its null, try whether freezing it costs any accuracy.

    Parameters
    ----------
    model : torch.nn.Module
        The trained network.
    data : Tensor, ImageData, DataLoader, iterable of batches, and others
        As for :func:`firstlight.measures.feature_ansatz.patch_gradients.patch_gradients`.
    initial : torch.nn.Module, optional
        The same network before training. There is no answer without it, and the error says so.
    draws : int, default N_NULLS
        Number of random rotations of Q for the null.
    n_images : int, default N_IMAGES
        Maximum number of images.
    seed : int, default 0
        Seed for the null and for random output combinations.
    show : bool, optional
        Force the progress bar on or off.

    Returns
    -------
    Ansatz
        One row per layer that moved, of the pair "change of the filters, trained gradients". Layers that did
        not move are listed in `skipped`. The output layer is 1 by definition. Cost as for `patch_gradients`.

    References
    ----------
    .. [1] arXiv 2402.05271, where Q is taken at the trained weights, as here. The rotated null is ours.

    Examples
    --------
    >>> import torch
    >>> from firstlight._internal.seeds import global_seed
    >>> with global_seed("example", 0):
    ...     before, after = (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)) for _ in range(2))
    >>> rows = centred_ansatz(after, torch.eye(4), initial=before).rows
    >>> [(row.layer, row.is_output) for row in rows]
    [('0', False), ('2', True)]
    """
    if initial is None:
        raise InvalidInput(
            "`initial` must be the network before its training: what changed cannot be told without. Keep a copy "
            "before you train, or rebuild it from the same seed."
        )
    initial = unwrapped(initial)
    demand_differentiable(initial)
    demand_finite_weights(initial)
    initial, _ = in_full_precision(initial)
    gradients = gradients_at_filters(
        model, data, filters_of=partial(_changes, initial), n_images=n_images, seed=seed,
        label="Gradients of what changed", show=show,
    )  # fmt: skip
    compared = ansatz_from(gradients, draws=draws, seed=seed)
    return dataclasses.replace(
        compared, rows=tuple(dataclasses.replace(row, pair=CENTRED) for row in compared.rows)
    )


def _changes(
    initial: nn.Module, applied: Mapping[str, AppliedLayer], image: Tensor
) -> tuple[dict[str, Float[Tensor, "g k d"]], dict[str, str]]:
    """W - W0 of every layer that moved, and the layers that did not."""
    with evaluating(initial):
        before = run(initial, image.to(next(initial.parameters())), forward=Recorder(initial).discover)
    changes = {}
    for name, layer in applied.items():
        if name not in before or before[name].filters.shape != layer.filters.shape:
            raise InvalidInput(
                f"`initial` must have the architecture of the model; layer {name!r} differs or is missing there."
            )
        changes[name] = layer.filters - before[name].filters
    # a zero matrix correlates with nothing
    moved = {name: change for name, change in changes.items() if change.any()}
    return moved, {name: UNMOVED for name in changes if name not in moved}
