"""When early stopping helps: a matter of which principal components carry the noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight.core.errors import InvalidInput
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.theory.deep_linear import PrincipalMoments, columns_at, principal_moments


@dataclass(frozen=True, kw_only=True)
class EarlyStopping(Result):
    """Test accuracy of a linear network over time, by the band of components that carries label noise.

    Parameters
    ----------
    bands : tuple of tuple of 2 int
        First and last component of each band, from 1, both included.
    steps : tuple of float
        Times.
    accuracy : Tensor of shape (bands, t)
        On test images, band by band.
    clean : Tensor of shape (t,)
        The same without noise.
    flipped : Tensor of shape (bands,)
        Share of training labels that the noise turned in each band.
    """

    bands: tuple[tuple[int, int], ...]
    steps: tuple[float, ...]
    accuracy: Float[Tensor, "bands t"]
    clean: Float[Tensor, " t"]
    flipped: Float[Tensor, " bands"]

    @property
    def gain(self) -> Float[Tensor, " bands"]:
        """What stopping at the best time gains over training to the end."""
        return self.accuracy.max(1).values - self.accuracy[:, -1]

    @property
    def clean_gain(self) -> float:
        """The same without noise: the part that needs no noise to explain it."""
        return float(self.clean.max() - self.clean[-1])

    @property
    def best_step(self) -> tuple[float, ...]:
        """The best time to stop, band by band."""
        return tuple(self.steps[int(i)] for i in self.accuracy.argmax(1))


def early_stopping_by_band(
    train: ImageData,
    test: ImageData,
    *,
    bands: Sequence[tuple[int, int]] = ((1, 10), (11, 50), (51, 200), (201, 700)),
    noise: float = 1.0,
    steps: Sequence[float] | None = None,
    seed: int = 0,
) -> EarlyStopping:
    r"""Add label noise that lies in one band of principal components, and train in closed form.

    Regression targets get :math:`\varepsilon = \sum_{j \in S} g_j\, u_j`, with random :math:`g` and the
    left singular vectors :math:`u_j` of the centred images in band S, scaled to `noise` times the size of
    the targets. A one-layer network fits component j at the rate :math:`d_j`, so noise in leading
    components is fitted at once, where no stopping helps, and noise in trailing ones late, where it does.

    Parameters
    ----------
    train, test : ImageData
        Two or more classes.
    bands : sequence of tuple of 2 int
        First and last component, from 1.
    noise : float, default 1.0
        Relative size; the same for every band.
    steps : sequence of float, optional
        Times at the rate 1 / d_1; by default up to a million, evenly on a logarithmic axis.
    seed : int, default 0
        Of the noise.
    """
    mean = train.x.flatten(1).double().mean(0)
    x, z = (part.x.flatten(1).double() - mean for part in (train, test))
    shares = train.counts.double() / len(train)
    y = F.one_hot(train.y, train.n_classes).double() - shares
    moments = principal_moments(x, y)
    rank = int((moments.values > 1e-9 * moments.values[0]).sum())
    for first, last in bands:
        if not 1 <= first <= last <= rank:
            raise InvalidInput(
                f"`bands` must lie in 1 .. {rank}, the components that vary; got {(first, last)}."
            )
    times = tuple(torch.logspace(0, 6, 49, dtype=torch.float64).tolist()) if steps is None else tuple(steps)
    left = (x @ moments.basis[:, :rank]) / moments.values[:rank].sqrt()
    generator = generator_from("band noise", seed)
    accuracy, flipped = [], []
    for first, last in bands:
        draw = torch.randn(last - first + 1, y.shape[1], generator=generator, dtype=torch.float64)
        extra = left[:, first - 1 : last] @ draw
        noisy = y + noise * extra * (y.norm() / extra.norm())
        flipped.append(float((noisy.argmax(1) != train.y).double().mean()))
        accuracy.append(_curve(principal_moments(x, noisy), z, test, shares, times))
    return EarlyStopping(
        bands=tuple((int(a), int(b)) for a, b in bands),
        steps=times,
        accuracy=torch.stack(accuracy),
        clean=_curve(moments, z, test, shares, times),
        flipped=torch.tensor(flipped, dtype=torch.float64),
    )


def _curve(
    moments: PrincipalMoments, z: Tensor, test: ImageData, shares: Tensor, times: Sequence[float]
) -> Float[Tensor, " t"]:
    seen, start = z @ moments.basis, torch.zeros_like(moments.cross)
    rate = 1 / float(moments.values[0])
    correct = [
        (seen @ columns_at(start, moments, rate=rate, steps=s).T + shares).argmax(1) == test.y for s in times
    ]
    return torch.stack(correct).double().mean(1)
