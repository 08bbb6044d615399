"""Studies of kernels and of exact relations: a predicted learning curve."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData, load
from firstlight.kernels import ridge_solver
from firstlight.measures.feature_ansatz.ansatz_exponent import ansatz_exponent
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.newer_papers.ridge_risk import hermite_modes, hermite_values, ridge_risk
from reproduce.studies.newer_papers.stationarity import stationarity

N_MODES = 400
DEGREES = 5  # constant to fourth degree: higher ones are below the ridge of what is not resolved


@dataclass(frozen=True, kw_only=True)
class LearningCurve(Result):
    """Predicted and measured error of kernel ridge regression by the number of images.

    Parameters
    ----------
    sizes : Tensor of shape (s,)
        Numbers of training images.
    predicted : Tensor of shape (s,)
        Mean squared error on new images, summed over the outputs, from covariance and labels alone.
    measured : Tensor of shape (s, repeats)
        The same of real fits on random subsets.
    constant : float
        Error of always answering the mean: the null.
    """

    sizes: Int[Tensor, " s"]
    predicted: Float[Tensor, " s"]
    measured: Float[Tensor, "s repeats"]
    constant: float

    @property
    def error(self) -> Float[Tensor, " s"]:
        """Relative error of the prediction, size by size."""
        measured = self.measured.mean(1)
        return (self.predicted - measured).abs() / measured


def learning_curve(
    data: ImageData,
    *,
    sizes: Sequence[int],
    ridge: float = 1e-3,
    modes: int = N_MODES,
    repeats: int = 3,
    seed: int = 0,
) -> LearningCurve:
    r"""How many images will it take? Predicted from the spectrum of the images, beside what fits give.

    The kernel is :math:`\exp(-\|x - x'\|^2 / 2 s^2)` on centred images, with s² their total variance. If these
    were Gaussian with variances
    :math:`\gamma`, its eigenvalues would be :math:`e^{-\operatorname{tr}\Sigma / s^2} \prod_i (\gamma_i / s^2)^{a_i}`
    and its eigenfunctions Hermite polynomials of the principal components: the expansion of
    :math:`e^{\langle x, x'\rangle / s^2}` term by term, with :math:`\|x\|^2` at its mean. The coefficients of the
    labels in these polynomials and :func:`~reproduce.studies.newer_papers.ridge_risk.ridge_risk` then
    give the whole curve.

    *What a practitioner does with the number:* where the predicted curve is still falling at the present number of
    images, more of them help a kernel; where it is flat, other features are needed.

    Parameters
    ----------
    data : ImageData
        Images with labels; half of them estimate the coefficients and are fitted to, the rest measure.
    sizes : sequence of int
        Numbers of training images, at most half of `data`.
    ridge : float, default 1e-3
        :math:`\delta` in :math:`(K + \delta I)\alpha = y`.
    modes : int, default N_MODES
        Number of eigenfunctions.
    repeats : int, default 3
        Number of fits at each size.
    seed : int, default 0
        Seed of the split, of the subsets and of the null.

    Returns
    -------
    LearningCurve
        Cost O(n d² + n modes + repeats sizes³).

    References
    ----------
    .. [1] arXiv 2510.14878. The nulls are ours; squared coefficients are freed of the bias of their estimate.
    """
    half = len(data) // 2
    counts = torch.tensor(sorted(sizes))
    order = torch.randperm(len(data), generator=generator_from("learning curve", seed))
    x, y = data.x.double().flatten(1)[order], F.one_hot(data.y, data.n_classes).double()[order]
    x = x - x.mean(0)
    y = y - y.mean(0)
    variances, axes = torch.linalg.eigh(x.T @ x / len(x))
    variances, axes = variances.flip(0).clamp(min=0), axes.flip(1)
    kept = variances > 1e-9 * variances[0]
    width = float(variances.sum().sqrt())
    z = (x @ axes[:, kept]) / variances[kept].sqrt()
    scaled = variances[kept] / width**2
    factor = float(torch.exp(-scaled.sum()))
    spectrum, degrees = hermite_modes(scaled, torch.full((DEGREES,), factor), count=modes)
    table = hermite_values(z, degrees)
    # the diagonal of the kernel is 1: modes left out act as a ridge
    unresolved = max(0.0, 1.0 - float(spectrum.sum()))
    total = float(y.square().sum(1).mean())
    energies = _energies(table, y)
    curve = [_predicted(spectrum, energies, total, n, ridge + unresolved) for n in counts.tolist()]
    return LearningCurve(
        sizes=counts,
        predicted=torch.tensor(curve, dtype=torch.float64),
        measured=_measured(x, y, counts, half, width, ridge, repeats, seed),
        constant=total,
    )


def _energies(table: Float[Tensor, "n m"], y: Float[Tensor, "n c"]) -> Float[Tensor, " m"]:
    """Squared coefficients, summed over outputs, without the part that chance gives; some may be negative."""
    n = len(y)
    energies = torch.zeros(table.shape[1], dtype=torch.float64)
    for target in y.T:  # output by output: the products of all modes and outputs would not fit
        variance, mean = torch.var_mean(table * target[:, None], dim=0)
        energies += mean.square() - variance / n
    return energies


def _predicted(spectrum: Tensor, energies: Tensor, total: float, n: int, ridge: float) -> float:
    noise = max(0.0, total - float(energies.sum()))
    return ridge_risk(spectrum, energies, n, ridge=ridge, noise=noise)


def _measured(
    x: Tensor, y: Tensor, counts: Tensor, half: int, width: float, ridge: float, repeats: int, seed: int
) -> Float[Tensor, "s repeats"]:
    test, truth = x[half:], y[half:]
    errors = torch.zeros(len(counts), repeats, dtype=torch.float64)
    for row, n in enumerate(counts.tolist()):
        for repeat in range(repeats):
            some = torch.randperm(half, generator=generator_from("subset", seed, n, repeat))[:n]
            fit = x[some]
            alpha = ridge_solver(_kernel(fit, fit, width), y[some])(ridge)
            errors[row, repeat] = (_kernel(test, fit, width) @ alpha - truth).square().sum(1).mean()
    return errors


def _kernel(a: Tensor, b: Tensor, width: float) -> Tensor:
    return torch.exp(-torch.cdist(a, b).square() / (2 * width**2))


@study("newer.curve")
class PredictedCurve(Study):
    """Does the covariance of the images predict the error of kernel ridge regression at every size?"""

    # Images and sizes.
    images: int = 2000
    sizes: tuple[int, ...] = (32, 128, 512)
    modes: int = 400
    ridge: float = 1e-2
    pooling: int = 4  # side of the squares that are averaged: 8 x 8 grey images

    scales = {"smoke": dict(images=128, sizes=(16, 32), modes=60)}

    def run(self) -> Measured:
        """Predict and measure on grey, pooled crops of photographs."""
        data = load("photos", n=self.images, seed=self.seed)
        grey = data.map(lambda x: torch.nn.functional.avg_pool2d(x.mean(1, keepdim=True), self.pooling))
        curve = learning_curve(grey, sizes=self.sizes, modes=self.modes, ridge=self.ridge, seed=self.seed)
        measured = curve.measured.mean(1)
        return {
            "largest relative error": float(curve.error.max()),
            "relative error of the constant": float(((curve.constant - measured).abs() / measured).max()),
        }


DECAY = 0.02


@study("newer.exponent", "newer.fact")
class ExactRelations(Study):
    """Do the exponent of deep linear networks and the relation at convergence hold to numerical precision?"""

    # Sizes and lengths of the trainings.
    depth: int = 3
    side: int = 4
    steps: int = 800  # of gradient descent on the linear network
    lr: float = 0.02
    iterations: int = 500  # of L-BFGS on the network with weight decay

    def run(self) -> Measured:
        """Train both networks for real, in float64."""
        linear, inputs = _deep_linear(self)
        rows = ansatz_exponent(patch_gradients(linear, inputs, show=False), seed=self.seed)
        early, late = (_residuals(self, iterations) for iterations in (3, self.iterations))
        return {
            "error of the first exponent": abs(rows[0].exponent - 1 / self.depth),
            "error of the second exponent": abs(rows[1].exponent - 1 / (self.depth - 1)),
            "error of the exponent 1": abs(1 - 1 / self.depth),
            "residual at convergence": late,
            "residual before": early,
        }


def _deep_linear(cfg: ExactRelations) -> tuple[nn.Module, Tensor]:
    """A linear network from small balanced weights, trained on white inputs and a target of distinct scales."""
    generator = generator_from("deep linear", cfg.seed)

    def orthogonal(rows: int) -> Tensor:
        noise = torch.randn(rows, cfg.side, generator=generator, dtype=torch.float64)
        basis: Tensor = torch.linalg.qr(noise).Q
        return basis

    x = orthogonal(10 * cfg.side) * (10 * cfg.side) ** 0.5
    weights = [0.03 ** (1 / cfg.depth) * orthogonal(cfg.side) for _ in range(cfg.depth)]
    if torch.linalg.det(torch.linalg.multi_dot(weights)) < 0:
        weights[0][
            0
        ] *= -1  # the sign of the determinant never changes: with the wrong one training gets stuck
    layers = [nn.Linear(cfg.side, cfg.side, bias=False).double() for _ in weights]
    for layer, weight in zip(layers, weights, strict=True):
        layer.weight.data = weight
    model = nn.Sequential(*layers)
    targets = x * torch.linspace(2.0, 0.7, cfg.side, dtype=torch.float64)
    optimiser = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    for _ in range(cfg.steps):
        loss = (model(x) - targets).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model, x


def _residuals(cfg: ExactRelations, iterations: int) -> float:
    """Largest residual of a small network after some iterations on the loss with weight decay."""
    generator = generator_from("stationary", cfg.seed)
    x = torch.randn(30, 1, 3, 3, generator=generator, dtype=torch.float64)
    y = (x[:, 0, 0, 0] * x[:, 0, 1, 1] > 0).long() + (x[:, 0, 2, 2] > 0.5).long()
    model = nn.Sequential(
        nn.Conv2d(1, 4, 2, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3, bias=False)
    ).double()
    weights = list(model.parameters())
    for weight in weights:
        weight.data = torch.randn(weight.shape, generator=generator, dtype=torch.float64) / 2
    optimiser = torch.optim.LBFGS(
        weights, max_iter=iterations, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def loss_with_decay() -> Tensor:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        for weight in weights:
            loss = loss + DECAY / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(loss_with_decay)  # type: ignore[no-untyped-call]
    rows = stationarity(model, ImageData(x, y, ("a", "b", "c")), weight_decay=DECAY, seed=cfg.seed)
    return max(row.residual for row in rows)
