"""Study of richness: networks that are lazy or rich by the scale of their outputs."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.seeds import global_seed
from firstlight.data.catalogue import load
from firstlight.measures.layers.activations import activations
from firstlight.measures.linearized.richness import richness
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("since.richness")
class ScaledOutputs(Study):
    """Is richness higher where a small output scale makes training rich than where a large one makes it lazy?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Fully connected networks on small grey images."""

        images: int = 64
        width: int = 32
        steps: int = 600
        lazy: float = 300.0
        rich: float = 0.1
        seed: int = 0

    scales = {
        "smoke": Config(images=24, steps=20),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train both from the same weights, as alpha (g(w) - g(w0)) with the loss over alpha squared."""
        data = load("photos", n=cfg.images, seed=cfg.seed)
        x = F.avg_pool2d(data.x, 2).mean(1, keepdim=True) * 2 - 1
        targets = F.one_hot(data.y, data.n_classes).float()
        with global_seed("scaled outputs", cfg.seed):
            initial = nn.Sequential(
                nn.Flatten(), nn.Linear(256, cfg.width), nn.ReLU(), nn.Linear(cfg.width, cfg.width), nn.ReLU(),
                nn.Linear(cfg.width, data.n_classes),
            )  # fmt: skip
        lazy, rich = (
            _trained(initial, x, targets - targets.mean(0), cfg.steps, alpha)
            for alpha in (cfg.lazy, cfg.rich)
        )
        measured = []
        for model in (lazy, rich):
            kept, before = activations(model, x), activations(initial, x)
            measured.append(richness(kept["5"], kept["outputs"] - before["outputs"], seed=cfg.seed))
        return {
            "richness of lazy training": measured[0].value,
            "richness of rich training": measured[1].value,
            "richness of a random readout": float(measured[1].null.mean()),
        }


def _trained(initial: nn.Module, x: Tensor, targets: Tensor, steps: int, alpha: float) -> nn.Module:
    model, offset = copy.deepcopy(initial), initial(x).detach()
    # the rate shrinks with the scale of the weights that small alphas ask for
    optimiser = torch.optim.SGD(model.parameters(), lr=0.03 * min(1.0, alpha), momentum=0.9)
    for _ in range(steps):
        loss = (alpha * (model(x) - offset) - targets).square().sum(1).mean()
        optimiser.zero_grad()
        (loss / alpha**2).backward()
        optimiser.step()
    return model
