"""Study of the course of one training: moments first, and which scores of examples agree."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from firstlight.measures.learning_order.gaussian_copies import accuracy_by_moments
from firstlight.measures.learning_order.score_agreement import ScoreAgreement, score_agreement
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.since.common import DESK, SMOKE, NetworkPlan, TrainedNetwork, trained_network


@study("since.moments", "since.margins")
class TrainingCourse(Study):
    """Does a network use means and covariances before anything else, and which scores of difficulty agree?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """The network."""

        plan: NetworkPlan = DESK
        seed: int = 0

    scales = {
        "smoke": Config(plan=SMOKE),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train once; accuracies on copies of unseen images, scores of the training images."""
        trained = trained_network(cfg.plan, seed=cfg.seed)
        moments = accuracy_by_moments(trained.checkpoints, trained.test, seed=cfg.seed)
        agreement = _agreement(trained, cfg.seed)
        names = {name: index for index, name in enumerate(agreement.names)}
        pair = names["mean margin"], names["accessibility"]
        return {
            "accuracy on images": by(moments.checkpoints, moments.images),
            "accuracy on copies": by(moments.checkpoints, moments.covariances),
            "gap early": float(moments.beyond_second[0]),
            "gap late": float(moments.beyond_second[-1]),
            "accuracy on copies late": float(moments.covariances[-1]),
            "accuracy on copies of the means late": float(moments.means[-1]),
            "agreement of margin and accessibility": float(agreement.correlation[pair]),
            "agreement by chance": float(agreement.chance[pair]),
            "agreement of margin and early error": float(
                agreement.correlation[names["mean margin"], names["early error"]]
            ),
        }


def _agreement(trained: TrainedNetwork, seed: int) -> ScoreAgreement:
    """Mean margin, early error of the probabilities, and share of epochs with the right answer."""
    outputs, y = trained.outputs, trained.train.y
    own = outputs.gather(2, y.expand(len(outputs), -1)[..., None])[..., 0]
    others = outputs.masked_fill(F.one_hot(y, outputs.shape[2]).bool(), -torch.inf).amax(2)
    early = outputs[0].softmax(1) - F.one_hot(y, outputs.shape[2])
    right = (outputs.argmax(2) == y).double()
    scores = {
        "mean margin": (own - others).mean(0),
        "early error": early.norm(dim=1),
        "accessibility": right.mean(0),
    }
    return score_agreement(scores, seed=seed)
