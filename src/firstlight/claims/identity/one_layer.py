"""Study of one linear layer: theorem 1, both lemmas and the span of the first layer."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from, global_seed
from firstlight.figures import Curve, Figure, curves
from firstlight.theory import identity as theory
from firstlight.training import Recipe, train


@dataclass(frozen=True, kw_only=True)
class OneLayerResult(Result):
    """Largest deviations between trained layers and formulas; singular values of a trained update."""

    theorem: float
    several: float
    lemma1: float
    lemma2: float
    span: float
    update: Float[Tensor, " d"]


def _descended(x: Tensor, y: Tensor, start: Tensor, steps: int) -> Tensor:
    """Gradient descent on least squares, step by step."""
    rate, w = 1 / float(torch.linalg.matrix_norm(x, 2)) ** 2, start.clone()
    for _ in range(steps):
        w -= rate * x.mT @ (x @ w - y)
    return w


@study("id.thm1", "id.thm1.multi", "id.lemma1", "id.lemma2", "id.span")
class OneLayer:
    """Does gradient descent on one layer end exactly where the theorem and the lemmas say?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        inputs: int = 30
        examples: int = 5
        steps: int = 3000  # of gradient descent, really taken
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> OneLayerResult:
        """Take the steps and compare."""
        generator = generator_from("one layer", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        def copied(examples: int) -> float:
            x, start = draw(examples, cfg.inputs), draw(cfg.inputs, cfg.inputs) / cfg.inputs**0.5
            end = _descended(x, x, start, cfg.steps)
            test = draw(20, cfg.inputs)
            return float((test @ end - test @ theory.identity_layer(x, initial=start)).abs().max())

        def lemma(n: int, d: int, outputs: int) -> float:
            x, y, start = draw(n, d), draw(n, outputs), draw(d, outputs)
            end = _descended(x, y, start, 10 * cfg.steps)
            if n >= d:
                return float((end - torch.linalg.lstsq(x, y).solution).abs().max())
            return float((end - start - x.mT @ torch.linalg.solve(x @ x.mT, y - x @ start)).abs().max())

        with global_seed("span", cfg.seed):
            layers = [nn.Linear(cfg.inputs, cfg.inputs, bias=False).double() for _ in range(3)]
        model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        before, x = layers[0].weight.detach().clone(), draw(1, cfg.inputs)
        recipe = Recipe(loss="mse", lr=0.05, momentum=0.9, steps=200, batch_size=None)
        train(model, x, x, recipe, show=False)
        update = torch.linalg.svdvals(layers[0].weight.detach() - before)
        return OneLayerResult(
            theorem=copied(1),
            several=copied(cfg.examples),
            lemma1=lemma(6, 15, 4),
            lemma2=lemma(20, 6, 3),
            span=float(update[1] / update[0]),
            update=update,
        )

    @staticmethod
    def figure(result: OneLayerResult) -> Figure:
        """Show that the update of the first layer has rank one."""
        return curves(
            [Curve(name="singular values of the update", values=result.update[None])],
            title="What one example changes in the first layer",
            alt="One singular value, and zeros",
            x="index",
            y="singular value",
        )

    rules = {
        "id.thm1": Rule(
            measured=lambda r: {"largest deviation": r.theorem}, reproduced=lambda r: r.theorem < 1e-8
        ),
        "id.thm1.multi": Rule(
            measured=lambda r: {"largest deviation": r.several}, reproduced=lambda r: r.several < 1e-8
        ),
        "id.lemma1": Rule(
            measured=lambda r: {"largest deviation": r.lemma1},
            reproduced=lambda r: r.lemma1 < 1e-8,
            note="with more examples than outputs: the printed condition is wrong (E-61)",
        ),
        "id.lemma2": Rule(
            measured=lambda r: {"largest deviation": r.lemma2}, reproduced=lambda r: r.lemma2 < 1e-8
        ),
        "id.span": Rule(
            measured=lambda r: {"second over first singular value": r.span},
            reproduced=lambda r: r.span < 1e-6,
        ),
    }
