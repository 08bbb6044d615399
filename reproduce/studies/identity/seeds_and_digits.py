"""Study of stability over seeds and over the training image."""

from dataclasses import dataclass, replace

import torch

from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity.common import DESK, SMOKE, mean_identity, trained

N_SEEDS = 3  # networks whose standard deviation is one measurement


@study("id.fig36.seeds")
class SeedsAndDigits(Study):
    """Is the outcome stable over seeds and over the training digit?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Three networks for each depth, and for each training digit."""

        base: IdentityTask = DESK
        depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
        digits: tuple[str, ...] = ("7", "3", "0")
        digit_depth: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depths=(1, 3), digits=("coffee", "rocket")),
        "desk": Config(),
    }
    unit = "standard deviation of the mean cosine to the identity, or loss"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train with several seeds and compare."""
        seeds = [N_SEEDS * cfg.seed + i for i in range(N_SEEDS)]  # no two runs of the study share a network
        depths = [replace(cfg.base, depth=d, seed=s) for d in cfg.depths for s in seeds]
        digits = [
            replace(cfg.base, depth=cfg.digit_depth, labels=(digit,), seed=s)
            for digit in cfg.digits
            for s in seeds
        ]
        networks = trained([*depths, *digits], label="Seeds and digits")
        after = torch.tensor([mean_identity(network.after) for network in networks]).double()
        before = torch.tensor([mean_identity(network.before) for network in networks[: len(depths)]]).double()
        losses = torch.tensor([network.after.loss for network in networks[: len(depths)]])
        by_digit = after[len(depths) :].reshape(-1, N_SEEDS)
        return {
            "spread over seeds": by(cfg.depths, after[: len(depths)].reshape(-1, N_SEEDS).std(1)),
            "initial spread over seeds": by(cfg.depths, before.reshape(-1, N_SEEDS).std(1)),
            "spread over seeds and digits": float(by_digit.std()),
            "identity by digit": by(cfg.digits, by_digit.mean(1)),
            "loss": by(cfg.depths, losses.reshape(-1, N_SEEDS).amax(1)),
        }
