"""Neural collapse by depth: variation within the classes against variation between them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.measures.feature_ansatz.ansatz import N_NULLS

MOST_PROJECTED = 256  # dimensions: the ratio of a projection concentrates like one over their root


@dataclass(frozen=True, kw_only=True)
class ClassVariation(Result):
    r"""Variation within the classes over variation between them, layer by layer.

    Parameters
    ----------
    layers : tuple of str
        Names, in the order given.
    ratio : Tensor of shape (layers,)
        :math:`\operatorname{tr} S_w / \operatorname{tr} S_b`; 0 if every class is one point.
    shuffled : Tensor of shape (layers, draws)
        The same with permuted labels: about (n - C) / (C - 1) where features have many dimensions.
    projected : Tensor of shape (layers, draws)
        The same for random projections of the first layer's features to as many dimensions as this layer has.
        What depth alone does, without learning.
    n_images, n_classes : int
        Behind these numbers.
    """

    layers: tuple[str, ...]
    ratio: Float[Tensor, " layers"]
    shuffled: Float[Tensor, "layers draws"]
    projected: Float[Tensor, "layers draws"]
    n_images: int
    n_classes: int

    @property
    def is_below_projections(self) -> tuple[bool, ...]:
        """Whether the ratio of each layer lies below that of every random projection."""
        return tuple((self.ratio < self.projected.min(1).values).tolist())


def class_variation(
    features: Mapping[str, Float[Tensor, "n ..."]],
    labels: Int[Tensor, " n"],
    *,
    draws: int = N_NULLS,
    seed: int = 0,
) -> ClassVariation:
    r"""How far the classes have collapsed to points, layer by layer.

    .. math:: \operatorname{tr} S_w = \frac1n \sum_i \|h_i - \mu_{y_i}\|^2, \qquad
              \operatorname{tr} S_b = \sum_c \frac{n_c}{n} \|\mu_c - \mu\|^2

    The ratio of traces rather than :math:`\operatorname{tr}(S_w S_b^+)`: the pseudo-inverse divides by the
    smallest variation between classes, which a few hundred images do not determine, and needs the full matrices.
    Unchanged by shifts, rotations and a common scale.

    *What a practitioner does with the number:* the layer where the ratio falls below its nulls is where the classes
    are being separated, so probe or cut the network there; a ratio that no longer falls with depth means layers
    that add nothing.

    Parameters
    ----------
    features : mapping of str to Tensor
        One row per image and layer, first layer first: :func:`activations` of a network, or the images at each
        feature layer of a :class:`firstlight.estimators.DeepConvRFMClassifier`.
    labels : integer Tensor of shape (n,)
        Class of every image; at least two classes, one of them with two images.
    draws : int, default N_NULLS
        Number of permutations and of projections.
    seed : int, default 0
        Seed of the nulls.

    Returns
    -------
    ClassVariation
        Cost O(draws n f) for each layer, and O(draws n f d) for projections to each d, at most 256.

    References
    ----------
    .. [1] arXiv 2402.13728, which follows the ratio through networks and Deep RFMs. The nulls are ours.

    Examples
    --------
    >>> points = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    >>> class_variation({"points": points}, torch.tensor([0, 0, 1, 1])).ratio
    tensor([0.0400], dtype=torch.float64)
    """
    if not features:
        raise InvalidInput("`features` must hold at least one layer; it is empty.")
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1: no number without its null; got draws={draws}.")
    codes = torch.unique(labels.cpu(), return_inverse=True)[1]
    n, n_classes = len(codes), int(codes.max()) + 1 if len(codes) else 0
    if n_classes < 2 or n == n_classes:
        raise InvalidInput(
            f"`labels` must hold at least two classes and fewer classes than images; got {n_classes} for {n}."
        )
    orders = [torch.arange(n), *(_order(n, seed, draw) for draw in range(draws))]
    # one set of averaging rows for the labels and one for each permutation
    whitened = torch.stack([_averaging(codes[order], n_classes) for order in orders])
    # random projections of the first layer: what a width alone does to the ratio
    first = _rows(next(iter(features.values())), n)
    ratios, sizes = [], []
    for layer in features.values():
        rows = _rows(layer, n)
        ratios.append(_ratios(rows, whitened))
        sizes.append(min(rows.shape[1], MOST_PROJECTED))
    # layers of equal size share their projections: drawing them is most of the work
    projected = {
        size: torch.cat(
            [_ratios(_projection(first, size, seed, draw), whitened[:1]) for draw in range(draws)]
        )
        for size in set(sizes)
    }
    table = torch.stack(ratios)
    return ClassVariation(
        layers=tuple(features),
        ratio=table[:, 0],
        shuffled=table[:, 1:],
        projected=torch.stack([projected[size] for size in sizes]),
        n_images=n,
        n_classes=n_classes,
    )


def _rows(layer: Tensor, n: int) -> Float[Tensor, "n f"]:
    rows = layer.detach().cpu().flatten(1).double()
    if len(rows) != n or not rows.isfinite().all():
        raise InvalidInput(
            f"every layer must have one row of finite numbers per label, {n}; got {len(rows)} rows."
        )
    return rows - rows.mean(0)


def _averaging(codes: Int[Tensor, " n"], n_classes: int) -> Float[Tensor, "c n"]:
    r"""Rows :math:`1/\sqrt{n_c}` on a class: their squared products with centred features sum to n tr S_b."""
    member = torch.nn.functional.one_hot(codes, n_classes).double().T
    return member / member.sum(1, keepdim=True).sqrt()


def _ratios(rows: Float[Tensor, "n f"], averaging: Float[Tensor, "m c n"]) -> Float[Tensor, " m"]:
    total = rows.square().sum()
    between = (averaging @ rows).square().sum((1, 2))
    # features that do not vary at all have no ratio; rounding must not give them one
    return torch.where(between > 0, (total - between).clamp(min=0) / between, float("nan"))


def _projection(rows: Float[Tensor, "n f"], size: int, seed: int, draw: int) -> Float[Tensor, "n g"]:
    generator = generator_from("class variation", seed, draw, size)
    return rows @ torch.randn(rows.shape[1], size, generator=generator, dtype=torch.float64)


def _order(n: int, seed: int, draw: int) -> Int[Tensor, " n"]:
    return torch.randperm(n, generator=generator_from("shuffled classes", seed, draw))
