"""Study of one linear layer: theorem 1, both lemmas and the span of the first layer."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from, global_seed
from firstlight.theory import one_convolution as theory
from firstlight.training.loop import train
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


def _descended(x: Tensor, y: Tensor, initial: Tensor, steps: int) -> Tensor:
    """Gradient descent on least squares, step by step."""
    rate, w = 1 / float(torch.linalg.matrix_norm(x, 2)) ** 2, initial.clone()
    for _ in range(steps):
        w -= rate * x.mT @ (x @ w - y)
    return w


@study("id.thm1", "id.thm1.multi", "id.lemma1", "id.lemma2", "id.span")
class OneLayer(Study):
    """Does gradient descent on one layer end exactly where the theorem and the lemmas say?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes, and steps of gradient descent that are really taken."""

        inputs: int = 30
        examples: int = 5
        steps: int = 3000
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}
    unit = "largest deviation"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Take the steps and compare."""
        generator = generator_from("one layer", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        def copied(examples: int) -> float:
            x, initial = draw(examples, cfg.inputs), draw(cfg.inputs, cfg.inputs) / cfg.inputs**0.5
            end = _descended(x, x, initial, cfg.steps)
            test = draw(20, cfg.inputs)
            return float((test @ end - test @ theory.identity_layer(x, initial=initial)).abs().max())

        def lemma(n: int, d: int, outputs: int) -> float:
            x, y, initial = draw(n, d), draw(n, outputs), draw(d, outputs)
            end = _descended(x, y, initial, 10 * cfg.steps)
            if n >= d:
                return float((end - torch.linalg.lstsq(x, y).solution).abs().max())
            return float((end - initial - x.mT @ torch.linalg.solve(x @ x.mT, y - x @ initial)).abs().max())

        update = torch.linalg.svdvals(_first_layer_update(cfg, draw(1, cfg.inputs)))
        return {
            "deviation for one example": copied(1),
            "deviation for several examples": copied(cfg.examples),
            "deviation from lemma 1": lemma(6, 15, 4),
            "deviation from lemma 2": lemma(20, 6, 3),
            "second over first singular value of the update": float(update[1] / update[0]),
        }


def _first_layer_update(cfg: OneLayer.Config, x: Tensor) -> Tensor:
    """What training three layers on one example changes in the first."""
    with global_seed("span", cfg.seed):
        layers = [nn.Linear(cfg.inputs, cfg.inputs, bias=False).double() for _ in range(3)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    before = layers[0].weight.detach().clone()
    recipe = Recipe(loss="mse", lr=0.05, momentum=0.9, steps=200, batch_size=None)
    train(model, x, x, recipe, show=False)
    return layers[0].weight.detach() - before
