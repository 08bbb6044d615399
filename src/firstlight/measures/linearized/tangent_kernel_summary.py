"""What a tangent kernel says: its spectrum, how far training rotated it, whether it fits the labels."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from


def effective_rank(spectrum: Float[Tensor, " r"] | Float[Tensor, "a b"]) -> float:
    r"""Exponential of the entropy of the singular values, between 1 and the rank.

    .. math:: p_i = \sigma_i/\sum\sigma, \qquad \mathrm{erank} = \exp\big(-\sum p_i \log p_i\big)

    Parameters
    ----------
    spectrum : Tensor of shape (r,) or Tensor of shape (a, b)
        Singular values, or a matrix. Mind which one: the kernel :math:`JJ^\top` has the squares of the
        singular values of J, and a much smaller effective rank.

    References
    ----------
    .. [1] Linearized, section 3; which matrix is meant is erratum E-84.

    Examples
    --------
    >>> round(effective_rank(torch.tensor([1.0, 1.0, 0.0])), 6), round(effective_rank(torch.eye(5)), 6)
    (2.0, 5.0)
    """
    _demand_finite(spectrum, "spectrum")
    values = torch.linalg.svdvals(spectrum.double()) if spectrum.ndim == 2 else spectrum.double()
    if (values < 0).any():
        raise InvalidInput(f"singular values must be at least 0; got {float(values.min()):.3g}.")
    total = values.sum()
    if total == 0:
        return 0.0
    # p log p → 0 for p → 0: zeros are left out instead of giving NaN
    shares = values[values > 0] / total
    return float((-(shares * shares.log()).sum()).exp())


@dataclass(frozen=True, kw_only=True)
class NtkChange(Result):
    r"""How far a tangent kernel moved.

    Parameters
    ----------
    distance : float
        :math:`\|\Theta - \Theta_0\|_F / \|\Theta_0\|_F`, which counts growth too.
    rotation : float
        1 minus the cosine of the two matrices: 0 if only the scale changed, as lazy training would have
        it, up to 1.
    growth : float
        :math:`\|\Theta\|_F / \|\Theta_0\|_F`.
    """

    distance: float
    rotation: float
    growth: float


def ntk_change(before: Float[Tensor, "a b"], after: Float[Tensor, "c d"]) -> NtkChange:
    """How far training moved a tangent kernel, on the same images.

    Examples
    --------
    >>> moved = ntk_change(torch.eye(4), 2 * torch.eye(4))
    >>> moved.distance, moved.rotation, moved.growth
    (1.0, 0.0, 2.0)
    """
    _demand_finite(before, "before")
    _demand_finite(after, "after")
    if before.shape != after.shape:
        raise InvalidInput(
            "`before` and `after` must be kernels between the same images; got the shapes "
            f"{tuple(before.shape)} and {tuple(after.shape)}."
        )
    start, end = before.double(), after.double()
    size, new_size = float(start.norm()), float(end.norm())
    if size == 0:
        raise InvalidInput("`before` must not be zero: the change is relative to it.")
    # half the squared distance of the normalised matrices is 1 - cosine without cancellation
    rotation = float((start / size - end / new_size).square().sum()) / 2 if new_size else 1.0
    return NtkChange(distance=float((end - start).norm()) / size, rotation=rotation, growth=new_size / size)


@dataclass(frozen=True, kw_only=True)
class LabelAlignment(Result):
    """How well a kernel's idea of alike fits the labels, beside shuffled labels.

    Parameters
    ----------
    value : float
        Cosine of the centred kernel and the centred matrix of equal labels.
    null_mean, null_std : float
        Mean and standard deviation of `value` for shuffled labels.
    """

    value: float
    null_mean: float
    null_std: float


def label_alignment(
    gram: Float[Tensor, "n n"], labels: Int[Tensor, " m"], *, n_null: int = 50, seed: int = 0
) -> LabelAlignment:
    r"""Alignment of a kernel with the labels: the centred cosine with :math:`T_{ij} = [y_i = y_j]`.

    Parameters
    ----------
    gram : Tensor of shape (n, n)
        One row per image, :func:`ntk_gram` with ``outputs="trace"`` for instance.
    labels : integer Tensor of shape (m,)
        Class of each image; at least two classes.
    n_null, seed : int
        Shuffles of the labels for the null.

    Examples
    --------
    >>> y = torch.tensor([0, 0, 1, 1])
    >>> round(label_alignment((y[:, None] == y).double(), y).value, 6)
    1.0
    """
    _demand_square(gram, "gram")
    n_classes = len(torch.unique(labels))
    if len(labels) != len(gram) or n_classes < 2:
        raise InvalidInput(
            f"`labels` must give one class per row of `gram`, {len(gram)}, and two classes at least; got "
            f"{len(labels)} labels of {n_classes} classes. Compute the kernel with outputs='trace'."
        )
    kernel = gram.double()
    same = (labels[:, None] == labels[None, :]).double()
    centred, target = _centred(kernel), _centred(same)
    # centring takes out what every kernel with positive entries shares with T
    scale = centred.norm() * target.norm()
    if scale == 0:
        raise InvalidInput("`gram` must not be constant: its alignment with labels is 0/0.")
    generator = generator_from("shuffled labels", seed)
    orders = [torch.randperm(len(labels), generator=generator) for _ in range(n_null)]
    # shuffled labels permute rows and columns of T together; its norm stays
    null = torch.stack([(centred * target[o][:, o]).sum() / scale for o in orders])
    return LabelAlignment(
        value=float((centred * target).sum() / scale),
        null_mean=float(null.mean()),
        null_std=float(null.std()),
    )


def _centred(matrix: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    # HΘH with H = I - 11ᵀ/n, without a product of matrices
    return matrix - matrix.mean(0, keepdim=True) - matrix.mean(1, keepdim=True) + matrix.mean()


def _demand_finite(values: Tensor, name: str) -> None:
    if values.numel() == 0 or not values.isfinite().all():
        raise InvalidInput(f"`{name}` must hold finite numbers, at least one; got {tuple(values.shape)}.")


def _demand_square(gram: Tensor, name: str) -> None:
    _demand_finite(gram, name)
    if gram.shape[0] != gram.shape[1]:
        raise InvalidInput(f"`{name}` must be square; got the shape {tuple(gram.shape)}.")
