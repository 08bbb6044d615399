"""How much of the features of a network is nothing but its outputs: richness without accuracy."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from

N_READOUTS = 32


@dataclass(frozen=True, kw_only=True)
class Richness(Result):
    """How far the features of a network are reduced to what its outputs need.

    Parameters
    ----------
    value : float
        Centred alignment of the features' kernel with the projection onto the outputs, from 0 to 1.
    null : Tensor of shape (draws,)
        The same for random linear readouts of the same features. At 1 the features have no room for anything but
        that many outputs, and the value says nothing.
    n_outputs : int
        Dimensions of the centred outputs.
    """

    value: float
    null: Float[Tensor, " draws"]
    n_outputs: int

    @property
    def excess(self) -> float:
        """The value above the mean of its null, as a share of what is left up to 1."""
        mean = float(self.null.mean())
        return (self.value - mean) / (1 - mean) if mean < 1 - 1e-9 else 0.0


def richness(
    features: Float[Tensor, "n f"], outputs: Float[Tensor, "m c"], *, draws: int = N_READOUTS, seed: int = 0
) -> Richness:
    r"""How much of a network's last features is used by its outputs, whether or not these are right.

    .. math:: R = \frac{\langle \Phi \Phi^\top, P \rangle}{\|\Phi \Phi^\top\| \, \|P\|}

    with :math:`\Phi` the centred features of n images and P the projection onto the span of the centred outputs.
    Rich training leaves no feature that the outputs do not use, and uses all alike: then
    :math:`\Phi \Phi^\top \propto P` and R = 1. Neural collapse is a case of it. Lazy training leaves the features
    of the initial network, and its outputs use directions of little variance: R is low, often below its null. Networks
    of known kind (benchmarks/regime_calibration.py) had 0.27 to 0.47 where lazy and 0.48 to 0.79 where rich; 6 of 12
    rich ones and none of 12 lazy ones exceeded random readouts of their own features. No label is needed.

    *What a practitioner does with the number:* it is a second opinion beside
    :func:`firstlight.questions.regime.measure.regime`, and the only one without an initial network; near 1 the
    features hold little beyond the outputs, so check before reusing them for another task.

    Parameters
    ----------
    features : Tensor of shape (n, f)
        What the last linear layer receives: :func:`activations`, or
        :func:`firstlight.measures.learning_order.discriminability.penultimate_features`.
    outputs : Tensor of shape (m, c)
        What the network returns for the same images, m = n.
    draws : int, default N_READOUTS
        Number of random readouts for the null.
    seed : int, default 0
        Seed of the null.

    Returns
    -------
    Richness
        Cost O(n f (c draws + min(n, f))).

    References
    ----------
    .. [1] arXiv 2410.04264, which reports 1 - R with the constant function counted as a feature. We centre
       instead, so that a common offset of the features, which every ReLU gives, does not count.

    Examples
    --------
    >>> outputs = torch.eye(3)
    >>> round(richness(2 * outputs, outputs).value, 6)
    1.0
    """
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1: no number without its null; got draws={draws}.")
    if len(features) != len(outputs) or len(features) < 3:
        raise InvalidInput(
            "`features` and `outputs` must be of the same images, at least 3; "
            f"got {len(features)} and {len(outputs)}."
        )
    phi, given = _centred(features, "features"), _centred(outputs, "outputs")
    span = _basis(given)
    # ‖ΦΦᵀ‖ = ‖ΦᵀΦ‖: the smaller of the two
    gram = phi @ phi.T if len(phi) <= phi.shape[1] else phi.T @ phi
    size = float(gram.norm())
    return Richness(
        value=_alignment(phi, span, size),
        null=torch.tensor(
            [_alignment(phi, _readout(phi, span.shape[1], seed, d), size) for d in range(draws)]
        ).double(),
        n_outputs=span.shape[1],
    )


def _centred(rows: Tensor, name: str) -> Float[Tensor, "n f"]:
    exact = rows.detach().cpu().double()
    centred = exact - exact.mean(0)
    if not exact.isfinite().all() or float(centred.norm()) <= 1e-12 * float(exact.norm()):
        raise InvalidInput(f"`{name}` must be finite and differ between images.")
    return centred


def _basis(rows: Float[Tensor, "n c"]) -> Float[Tensor, "n r"]:
    """Orthonormal columns that span the columns of `rows`."""
    left, values, _ = torch.linalg.svd(rows, full_matrices=False)
    # single precision leaves directions that only rounding fills, such as the sum of outputs of a softmax
    spanning: Tensor = left[:, values > 1e-5 * values[0]]
    return spanning


def _alignment(phi: Float[Tensor, "n f"], span: Float[Tensor, "n r"], size: float) -> float:
    # ⟨ΦΦᵀ, P⟩ = ‖BᵀΦ‖² for P = BBᵀ, and ‖P‖ = √rank
    return float((span.T @ phi).square().sum()) / (size * math.sqrt(span.shape[1]))


def _readout(phi: Float[Tensor, "n f"], count: int, seed: int, draw: int) -> Float[Tensor, "n r"]:
    # random outputs of the same features span as many directions: what R is without training
    generator = generator_from("random readout", seed, draw)
    return _basis(phi @ torch.randn(phi.shape[1], count, generator=generator, dtype=torch.float64))
