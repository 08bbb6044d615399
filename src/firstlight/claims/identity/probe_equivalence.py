"""Study of the averaging classifier: votes of all examples against class sums."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data import load
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.identity import averaging_votes, class_sums


@dataclass(frozen=True, kw_only=True)
class EquivalenceResult(Result):
    """Votes for the first test images both ways, and the largest deviation over all."""

    deviation: float
    by_examples: Float[Tensor, " classes"]
    by_sums: Float[Tensor, " classes"]


@study("id.probe.equivalence")
class ProbeEquivalence:
    """Does voting by inner products equal comparing with class sums?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        dataset: str = "mnist"
        n_images: int = 5000
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=60),
        "desk": Config(),
        "paper": Config(n_images=60_000),
    }

    @staticmethod
    def run(cfg: Config) -> EquivalenceResult:
        """Vote both ways on pixels."""
        data = load(cfg.dataset, split="train", seed=cfg.seed)
        data = data.sample(min(cfg.n_images, len(data)), seed=cfg.seed)
        x = data.x.flatten(1).double()
        test = x[:200]
        slow = (test @ x.mT) @ F.one_hot(data.y, data.n_classes).double()
        fast = averaging_votes(test, class_sums(x, data.y, n_classes=data.n_classes))
        return EquivalenceResult(
            deviation=float((slow - fast).abs().max()), by_examples=slow[0], by_sums=fast[0]
        )

    @staticmethod
    def figure(result: EquivalenceResult) -> Figure:
        """Votes of one image."""
        return curves(
            [
                Curve(name="by class sums", values=result.by_sums[None]),
                Curve(name="by every example", values=result.by_examples[None], role="theory"),
            ],
            title="Votes for one image, both ways",
            alt="Two curves that coincide",
            x="class",
            y="sum of inner products",
        )

    rules = {
        "id.probe.equivalence": Rule(
            measured=lambda r: {"largest deviation": r.deviation}, reproduced=lambda r: r.deviation < 1e-6
        )
    }
