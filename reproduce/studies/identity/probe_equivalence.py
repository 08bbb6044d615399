"""Study of the averaging classifier: votes of all examples against class sums."""

from dataclasses import dataclass

from torch.nn import functional as F

from firstlight.data.catalogue import load
from firstlight.measures.layers.layer_probe import averaging_votes, class_sums
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("id.probe.equivalence")
class ProbeEquivalence(Study):
    """Does voting by inner products equal comparing with class sums?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Images that vote, on their pixels."""

        dataset: str = "mnist"
        n_images: int = 5000
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=60),
        "desk": Config(),
    }
    unit = "largest difference of votes"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Vote both ways."""
        data = load(cfg.dataset, split="train", seed=cfg.seed)
        data = data.sample(min(cfg.n_images, len(data)), seed=cfg.seed)
        x = data.x.flatten(1).double()
        test = x[:200]
        slow = (test @ x.mT) @ F.one_hot(data.y, data.n_classes).double()
        fast = averaging_votes(test, class_sums(x, data.y, n_classes=data.n_classes))
        return {"largest difference of votes": float((slow - fast).abs().max())}
