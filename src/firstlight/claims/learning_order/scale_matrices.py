"""The gradient scale matrices while a deep linear network trains."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, images, one_hot
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.interventions import ChannelNormalisation
from firstlight.figures import Curve, Figure, curves
from firstlight.theory import deep_linear as dl
from firstlight.training import geometric_steps


@dataclass(frozen=True, kw_only=True)
class ScalesInTime(Result):
    """Distance of A and B from multiples of the identity, mean over layers."""

    steps: tuple[int, ...]
    excess: Float[Tensor, " t"]  # loss above the optimum, relative to the start
    diagonal: Float[Tensor, "2 t"]  # mean |diag / mean - 1| of A, B
    off_diagonal: Float[Tensor, "2 t"]  # mean |off-diagonal| / mean of A, B
    largest: Float[Tensor, "2 t"]  # largest eigenvalue over layers of A, B

    @property
    def before(self) -> Tensor:
        """Times before convergence: more than a tenth of the excess loss is left."""
        return self.excess > 0.1

    @property
    def deviation(self) -> Float[Tensor, "2 t"]:
        """Both parts together."""
        return self.diagonal + self.off_diagonal


def _read(layers: list[Tensor]) -> Tensor:
    scales = dl.scale_matrices(layers)
    sides = (scales.left[:-1], scales.right[1:])  # the others are the identity
    rows = []
    for side in sides:
        found = [dl.identity_distance(m) for m in side]
        rows.append(
            [
                sum(f.diagonal for f in found) / len(found),
                sum(f.off_diagonal for f in found) / len(found),
                max(f.largest for f in found),
            ]
        )
    return torch.tensor(rows, dtype=torch.float64)


@study("deeplin.fig3.scale_matrices")
class ScaleMatricesInTime:
    """Do the gradient scale matrices stay near the identity until a deep linear network has converged?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data, network, length."""

        data: str = "mnist"
        n: int = 5000
        depth: int = 5
        width: int = 512
        steps: int = 3000
        rate: float = 0.3  # of the stability limit 1 / (L d_1)
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(data="photos", n=300, width=64, steps=20),
        "desk": Config(),
        "paper": Config(data="small_mammals", n=2500, width=1024, steps=20_000),
    }

    @staticmethod
    def run(cfg: Config) -> ScalesInTime:
        """Full-batch gradient descent through the moments of the data, in float64."""
        raw = images(cfg.data, "train", cfg.n, seed=cfg.seed)
        train = ChannelNormalisation.fit(raw).transform(raw)
        (x,) = centred(train)
        y = one_hot(train)
        moments = dl.principal_moments(x, y)
        sxx, syx = x.T @ x, y.T @ x
        rate = cfg.rate / (cfg.depth * float(moments.values[0]))
        widths = (x.shape[1], *[cfg.width] * (cfg.depth - 1), y.shape[1])
        generator = generator_from("scale matrices", cfg.seed)
        layers = dl.drawn_layers(widths, dl.definition3_variances(widths), generator=generator)

        def excess(weights: Tensor) -> float:
            gap = (moments.rotated(weights) - moments.optimum) * moments.values.sqrt()
            return float(gap.square().sum())

        wanted = geometric_steps(cfg.steps, count=16)
        start = excess(dl.compact(layers))
        losses, found = [], []
        for step in range(cfg.steps + 1):
            if step in wanted:
                losses.append(excess(dl.compact(layers)) / start)
                found.append(_read(layers))
            layers = dl.stepped(layers, sxx, syx, rate=rate)
        read = torch.stack(found, dim=-1)
        return ScalesInTime(
            steps=tuple(sorted(wanted)),
            excess=torch.tensor(losses, dtype=torch.float64),
            diagonal=read[:, 0],
            off_diagonal=read[:, 1],
            largest=read[:, 2],
        )

    @staticmethod
    def figure(result: ScalesInTime) -> Figure:
        """Deviation from the identity over time."""
        return curves(
            [
                Curve(name="A", values=result.deviation[:1, 1:]),
                Curve(name="B", values=result.deviation[1:, 1:], role="random labels"),
                Curve(name="loss left", values=result.excess[None, 1:], role="null"),
            ],
            title="Scale matrices during training",
            alt="Deviation of A and B from the identity, and the loss that is left, against steps",
            x="step",
            y="deviation (entries)",
            at=result.steps[1:],
            log_x=True,
            log_y=True,
        )

    rules: ClassVar = {
        "deeplin.fig3.scale_matrices": Rule(
            measured=lambda r: {
                "A diagonal, before convergence": float(r.diagonal[0, r.before].max()),
                "A off-diagonal": float(r.off_diagonal[0, r.before].max()),
                "B diagonal": float(r.diagonal[1, r.before].max()),
                "B off-diagonal": float(r.off_diagonal[1, r.before].max()),
                "A at the end": float(r.deviation[0, -1]),
                "B at the end": float(r.deviation[1, -1]),
                "largest eigenvalue of B": float(r.largest[1].max()),
                "excess loss at the end": float(r.excess[-1]),
            },
            reproduced=lambda r: bool(
                (r.diagonal[:, r.before] < 0.1).all()
                and (r.off_diagonal[:, r.before] < 0.1).all()
                and r.deviation[0, -1] > r.deviation[1, -1]
            ),
            partly=lambda r: bool(
                (r.off_diagonal[1] < 0.1).all() and r.deviation[0, -1] > r.deviation[1, -1]
            ),
            null=lambda r: {
                "A at the start": float(r.deviation[0, 0]),
                "B at the start": float(r.deviation[1, 0]),
            },
        )
    }
