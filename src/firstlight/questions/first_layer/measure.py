"""How much of a trained first layer the implicit bias of gradient descent explains, without any labels."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar, nnls
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.table import Row, rows_along
from firstlight.data.images import ImageData
from firstlight.maths.patches import mean_patches
from firstlight.measures.first_layer.energy_profile import N_IMAGES, Profile
from firstlight.measures.first_layer.energy_profile import profile as first_layer_profile
from firstlight.measures.first_layer.first_convolution import inputs_of_first_layer
from firstlight.theory.least_squares import Spectrum, flow_filter, spectrum

SCAN = 48  # times on a logarithmic grid before the continuous search starts


@dataclass(frozen=True, kw_only=True)
class ProfileExplanation(Result):
    """A trained network's profile against the closed form of the linear CNN.

    Parameters
    ----------
    profile : Profile
        What was measured.
    bias_time, label_time : float
        Gradient-flow times of the two best fits, in units of 1 / largest eigenvalue.
    sigma : float
        Amplitude that the fit leaves to the initial weights, per component.
    bias_curve : Tensor of shape (m,)
        The closed form without labels, fitted.
    label_curve : Tensor of shape (m,)
        The closed form with the true labels added, fitted.
    bias_share : float
        Share of the variance of the profile explained without labels.
    label_share : float
        What the true labels add to it.
    null_share : float
        Median share that the same two-parameter fit reaches on random filters: what fitting alone
        achieves.
    residual : Tensor of shape (m,)
        Measured minus `label_curve`, by component.
    """

    profile: Profile
    bias_time: float
    label_time: float
    sigma: float
    bias_curve: Float[Tensor, " m"]
    label_curve: Float[Tensor, " m"]
    bias_share: float
    label_share: float
    null_share: float
    residual: Float[Tensor, " m"]

    def _rows(self) -> list[Row]:
        pairs = zip(self.profile._rows(), rows_along(self, "m"), strict=True)
        return [measured | explained for measured, explained in pairs]


@dataclass(frozen=True)
class _Theory:
    """Squared profiles of the closed form as functions of time."""

    spectral: Spectrum
    labels: Float[Tensor, "n classes"]

    def terms(self, time: float) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
        """Expected squared profile under random labels, and that of the true ones."""
        spectral = self.spectral
        filtered = flow_filter(spectral.values, time=time / spectral.largest)
        shares = self.labels.mean(0)
        ones = torch.ones(len(self.labels), dtype=torch.float64)
        mean = spectral.vectors @ (filtered * spectral.moment(ones))
        variance = (spectral.vectors.square() * (filtered.square() * spectral.values)).sum(1)
        bias = shares.square().sum() * mean.square() + (shares * (1 - shares)).sum() * variance
        true = spectral.vectors @ (filtered[:, None] * spectral.moment(self.labels))
        return bias, true.square().sum(1)


@dataclass(frozen=True)
class _Fit:
    time: float
    curve: Float[Tensor, " m"]
    sigma: float
    share: float


@follows_device
def explain_profile(
    model: nn.Module,
    data: ImageData,
    *,
    subtract: nn.Module | Tensor | None = None,
    n_images: int = N_IMAGES,
    seed: int = 0,
) -> ProfileExplanation:
    r"""Fit the linear-CNN closed form to the first layer of a trained network.

    The squared profile is modelled as :math:`a\,B_i(\tau) + c\,L_i(\tau) + \sigma^2`: B is what random labels
    would give on average, L what the true ones give, both in closed form at gradient-flow time
    :math:`\tau`. One bounded search over :math:`\log\tau`; the coefficients follow by non-negative least
    squares. Distances are measured between amplitudes, not their squares.

    Parameters
    ----------
    model : torch.nn.Module
        A trained network.
    data : ImageData
        The images and labels it was trained on.
    subtract : torch.nn.Module or Tensor, optional
        The initial network, to explain the accumulated update instead of the weights.
    n_images : int, default N_IMAGES
        Maximum number of images.
    seed : int, default 0
        Seed of the random filters that serve as null.

    Examples
    --------
    >>> from firstlight import build, load
    >>> explanation = explain_profile(build("small", classes=8, width=0.25), load("photos", n=32))
    >>> explanation.bias_curve.shape  # one number for each component of 3 x 3 colour patches
    torch.Size([27])
    >>> explanation.bias_share < 0.5  # an untrained layer is not what training would make of it
    True
    """
    if len(data) > n_images:
        data = data.sample(n_images, seed=seed)
    profile = first_layer_profile(model, data, subtract=subtract, n_images=n_images, seed=seed)
    patches = torch.cat(
        [mean_patches(block, profile.layer.geometry) for block in inputs_of_first_layer(model, data.x)]
    )
    spectral = spectrum(patches @ profile.pca.basis)
    if spectral.rank == 0:
        raise InvalidInput("all average patches are zero: there is nothing that could be learned from.")
    theory = _Theory(spectral, F.one_hot(data.y, data.n_classes).double())
    bias = _best_fit(theory, profile.amplitude, with_labels=False)
    full = max((bias, _best_fit(theory, profile.amplitude, with_labels=True)), key=lambda fit: fit.share)
    nulls = [_best_fit(theory, row, with_labels=False).share for row in profile.nulls[:8]]
    return ProfileExplanation(
        profile=profile,
        bias_time=bias.time,
        label_time=full.time,
        sigma=full.sigma,
        bias_curve=bias.curve,
        label_curve=full.curve,
        bias_share=bias.share,
        label_share=full.share - bias.share,
        null_share=float(np.median(nulls)),
        residual=profile.amplitude - full.curve,
    )


def _best_fit(theory: _Theory, energy: Float[Tensor, " m"], *, with_labels: bool) -> _Fit:
    slowest = float(theory.spectral.values[theory.spectral.rank - 1])
    bounds = (math.log(1e-2), math.log(10 * theory.spectral.largest / slowest))
    grid = np.linspace(*bounds, SCAN)

    def loss(log_time: float) -> float:
        return 1 - _fit_at(theory, energy, math.exp(log_time), with_labels).share

    best = int(np.argmin([loss(t) for t in grid]))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, SCAN - 1)]
    optimum = minimize_scalar(loss, bounds=bracket, method="bounded", options={"xatol": 1e-6})
    log_time = float(optimum.x) if optimum.fun < loss(grid[best]) else float(grid[best])
    return _fit_at(theory, energy, math.exp(log_time), with_labels)


def _fit_at(theory: _Theory, energy: Float[Tensor, " m"], time: float, with_labels: bool) -> _Fit:
    bias, true = theory.terms(time)
    columns = [bias, true, torch.ones_like(bias)] if with_labels else [bias, torch.ones_like(bias)]
    design = torch.stack([column / column.max() for column in columns], 1)
    weight = 0.5 / energy.clamp(min=1e-3 * float(energy.max()))  # turns errors of squares into errors of e
    solution, _ = nnls((design * weight[:, None]).numpy(), (energy.square() * weight).numpy())
    curve = (design @ torch.from_numpy(solution)).sqrt()
    spread = (energy - energy.mean()).square().sum()
    share = float(1 - (energy - curve).square().sum() / spread)
    return _Fit(time, curve, float(solution[-1]) ** 0.5, share)
