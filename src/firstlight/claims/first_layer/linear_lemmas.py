"""Study of the reduction: a linear CNN, trained step by step, is regression on average patches."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import PatchGeometry, mean_patches
from firstlight.measures.first_layer import energy_profile
from firstlight.models import build
from firstlight.theory import first_layer as theory
from firstlight.theory import least_squares as ls
from firstlight.training import Recipe, train


@dataclass(frozen=True, kw_only=True)
class LemmaResult(Result):
    """Largest deviations between the trained network and the statements."""

    output: float
    gradient_spread: float
    covariance_change: float
    mean_filter: float
    closed_form: float
    profile: float
    moved: float
    energies: Float[Tensor, "two d"]


@study("linear.lemmaA1", "linear.lemmaA2", "linear.eta_eff", "linear.thmA3.profile")
class LinearLemmas:
    """Is the linear CNN regression on average patches, with filters that move rigidly?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        images: int = 12
        height: int = 10
        width: int = 11
        filters: int = 5
        steps: int = 200
        lr: float = 0.5
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> LemmaResult:
        """Train the network for real, in float64, and compare."""
        generator = generator_from("lemmas", cfg.seed)
        x = torch.rand(cfg.images, 3, cfg.height, cfg.width, generator=generator, dtype=torch.float64)
        y = (torch.arange(cfg.images) % 2).double()[:, None]
        shape = (3, cfg.height, cfg.width)
        model = build("linear_cnn", classes=1, shape=shape, filters=cfg.filters, seed=cfg.seed).double()
        readout = torch.full((cfg.filters,), 1 / cfg.filters, dtype=torch.float64)
        model.readout = readout  # built in single precision, where 1/5 is not 1/5
        conv = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
        k = mean_patches(x, PatchGeometry.of(conv))
        start = conv.weight.detach().flatten(1).clone()
        output = (model(x).detach()[:, 0] - k @ start.mean(0)).abs().max()

        loss = (model(x) - y).square().mean()
        (gradient,) = torch.autograd.grad(loss, conv.weight)
        spread = (gradient - gradient.mean(0)).abs().max()

        recipe = Recipe(lr=cfg.lr, steps=cfg.steps, batch_size=None, loss="mse")
        train(model, x, y, recipe, show=False)
        end = conv.weight.detach().flatten(1)
        rate = theory.effective_rate(cfg.lr, readout=readout, n=cfg.images, loss="mse")
        closed = ls.weights(ls.spectrum(k), y[:, 0], rate=rate, steps=cfg.steps, initial=start.mean(0))
        filters = theory.filters_at(k, y[:, 0], initial=start, readout=readout, rate=rate, steps=cfg.steps)
        eye = torch.eye(k.shape[1], dtype=torch.float64)
        profile = energy_profile(end, eye)
        parts = end.mean(0).square() + start.var(0, correction=0)
        return LemmaResult(
            output=float(output),
            gradient_spread=float(spread),
            covariance_change=float((torch.cov(end.mT) - torch.cov(start.mT)).abs().max()),
            mean_filter=float((end.mean(0) - closed).abs().max()),
            closed_form=float((end - filters).abs().max()),
            profile=float((profile.square() / cfg.filters - parts).abs().max()),
            moved=float((end - start).norm() / start.norm()),
            energies=torch.stack([energy_profile(start, eye), profile]),
        )

    @staticmethod
    def figure(result: LemmaResult) -> Figure:
        """Show the profile before and after."""
        return curves(
            [
                Curve(name="trained", values=result.energies[1:]),
                Curve(name="initial", values=result.energies[:1], role="initial"),
            ],
            title="Profile of a linear CNN before and after training",
            alt="Two curves over 27 pixel coordinates",
            x="patch coordinate",
            y="energy",
        )

    rules = {
        "linear.lemmaA1": Rule(
            measured=lambda r: {"largest deviation": r.output}, reproduced=lambda r: r.output < 1e-10
        ),
        "linear.lemmaA2": Rule(
            measured=lambda r: {"gradient": r.gradient_spread, "covariance": r.covariance_change},
            reproduced=lambda r: r.gradient_spread < 1e-8 and r.covariance_change < 1e-10 and r.moved > 0.01,
        ),
        "linear.eta_eff": Rule(
            measured=lambda r: {"mean filter": r.mean_filter, "all filters": r.closed_form},
            reproduced=lambda r: max(r.mean_filter, r.closed_form) < 1e-10,
        ),
        "linear.thmA3.profile": Rule(
            measured=lambda r: {"largest deviation": r.profile}, reproduced=lambda r: r.profile < 1e-10
        ),
    }
