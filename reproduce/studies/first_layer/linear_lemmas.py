"""Study of the reduction: a linear CNN, trained step by step, is regression on average patches."""

from dataclasses import dataclass

import torch
from torch import nn

from firstlight._internal.seeds import generator_from
from firstlight.maths.patches import PatchGeometry, mean_patches
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.models.building import build
from firstlight.theory import least_squares as ls
from firstlight.theory import linear_cnn as theory
from firstlight.training.loop import train
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("linear.lemmaA1", "linear.lemmaA2", "linear.eta_eff", "linear.thmA3.profile")
class LinearLemmas(Study):
    """Is the linear CNN regression on average patches, with filters that move rigidly?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """A network small enough to be trained in float64 in a second."""

        images: int = 12
        height: int = 10
        width: int = 11
        filters: int = 5
        steps: int = 200
        lr: float = 0.5
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
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
        initial = conv.weight.detach().flatten(1).clone()
        output = (model(x).detach()[:, 0] - k @ initial.mean(0)).abs().max()

        loss = (model(x) - y).square().mean()
        (gradient,) = torch.autograd.grad(loss, conv.weight)
        spread = (gradient - gradient.mean(0)).abs().max()

        recipe = Recipe(lr=cfg.lr, steps=cfg.steps, batch_size=None, loss="mse")
        train(model, x, y, recipe, show=False)
        end = conv.weight.detach().flatten(1)
        rate = theory.effective_rate(cfg.lr, readout=readout, n=cfg.images, loss="mse")
        closed = ls.weights(ls.spectrum(k), y[:, 0], rate=rate, steps=cfg.steps, initial=initial.mean(0))
        filters = theory.filters_at(k, y[:, 0], initial=initial, readout=readout, rate=rate, steps=cfg.steps)
        eye = torch.eye(k.shape[1], dtype=torch.float64)
        profile = energy_profile(end, eye)
        parts = end.mean(0).square() + initial.var(0, correction=0)
        return {
            "deviation of the output": float(output),
            "deviation between gradients": float(spread),
            "change of the covariance": float((torch.cov(end.mT) - torch.cov(initial.mT)).abs().max()),
            "deviation of the mean filter": float((end.mean(0) - closed).abs().max()),
            "deviation of all filters": float((end - filters).abs().max()),
            "deviation of the profile": float((profile.square() / cfg.filters - parts).abs().max()),
            "movement": float((end - initial).norm() / initial.norm()),
        }
