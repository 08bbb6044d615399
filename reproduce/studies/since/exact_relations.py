"""Study of what later papers prove: the exponent of deep linear networks, and the relation at convergence."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz_exponent import ansatz_exponent
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.feature_ansatz.stationarity import stationarity
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured

DECAY = 0.02


@study("since.exponent", "since.fact")
class ExactRelations(Study):
    """Do the exponent of deep linear networks and the relation at convergence hold to numerical precision?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes and lengths of the trainings."""

        depth: int = 3
        side: int = 4
        steps: int = 800  # of gradient descent on the linear network
        lr: float = 0.02
        iterations: int = 500  # of L-BFGS on the network with weight decay
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train both networks for real, in float64."""
        linear, inputs = _deep_linear(cfg)
        rows = ansatz_exponent(patch_gradients(linear, inputs, show=False), seed=cfg.seed)
        early, late = (_residuals(cfg, iterations) for iterations in (3, cfg.iterations))
        return {
            "error of the first exponent": abs(rows[0].exponent - 1 / cfg.depth),
            "error of the second exponent": abs(rows[1].exponent - 1 / (cfg.depth - 1)),
            "error of the exponent 1": abs(1 - 1 / cfg.depth),
            "residual at convergence": late,
            "residual before": early,
        }


def _deep_linear(cfg: ExactRelations.Config) -> tuple[nn.Module, Tensor]:
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


def _residuals(cfg: ExactRelations.Config, iterations: int) -> float:
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
