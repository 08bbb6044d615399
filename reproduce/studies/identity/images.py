"""Studies of the training images: many digits, several images, colour, other seeds."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.measures.copy_or_memorise.identity_score import image_outputs
from firstlight.questions.copy_or_memorise.task import Findings, IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.identity import common
from reproduce.studies.identity.common import DESK, DESK_28, DESK_FCN, SMOKE, SMOKE_FCN

TEN_EPOCHS = IdentityTask(
    examples=None, n_images=2000, image_size=28, width=16, batch_size=32, steps=630, stop_below=None
)
ELSEWHERE = {"patterns": "patterns", "other images": "others"}


def _elsewhere(findings: Findings) -> Series:
    return by(ELSEWHERE, [findings.scores[group].means["identity"] for group in ELSEWHERE.values()])


@study("id.fig1.60k", "id.fig40.linear_rows")
class AllDigits(Study):
    """Trained on many digits, do convolutional networks copy everything and connected ones digits only?"""

    # One convolutional, one fully connected and one linear network on the same digits.
    base: IdentityTask = TEN_EPOCHS
    cnn_depth: int = 5
    fcn_depth: int = 4

    scales = {"smoke": dict(base=replace(SMOKE, examples=None, batch_size=16), cnn_depth=2, fcn_depth=2)}

    def run(self) -> Measured:
        """Train all three."""
        base = replace(self.base, seed=self.seed)
        tasks = {
            "CNN": replace(base, depth=self.cnn_depth),
            "FCN": replace(base, family="fcn", width=None, depth=self.fcn_depth),
            "linear FCN": replace(base, family="linear_fcn", width=None, depth=self.fcn_depth),
        }
        networks = dict(zip(tasks, common.trained(list(tasks.values()), label="All digits"), strict=True))
        digits = [network.after.scores["unseen"].means["identity"] for network in networks.values()]
        return {
            "identity on unseen digits": by(tasks, digits),
            **{f"{name} off the digits": _elsewhere(network.after) for name, network in networks.items()},
            **{
                f"initial {name} off the digits": _elsewhere(network.before)
                for name, network in networks.items()
            },
        }


CNN_32 = replace(DESK_28, image_size=32)
FCN_32 = replace(DESK_FCN, image_size=32, width=512)


@study("id.fig42.cifar")
class Colour(Study):
    """Does depth do to a single colour image what it does to a digit?"""

    # Both families, shallow and deep, on one image of the data set.
    dataset: str = "cifar10"
    cnn: IdentityTask = CNN_32
    fcn: IdentityTask = FCN_32
    deep: IdentityTask = DESK  # deep networks reach the constant at 14 x 14
    shallow_depth: int = 3
    deep_depth: int = 20
    fcn_depth: int = 4

    scales = {
        "smoke": dict(
            dataset="photos", cnn=SMOKE, fcn=SMOKE_FCN, deep=SMOKE, shallow_depth=2, deep_depth=3, fcn_depth=2
        )
    }

    def run(self) -> Measured:
        """Train all four."""
        given: dict[str, Any] = {"dataset": self.dataset, "seed": self.seed}
        tasks = (
            replace(self.cnn, depth=self.shallow_depth, **given),
            replace(self.deep, depth=self.deep_depth, **given),
            replace(self.fcn, depth=self.fcn_depth, **given),
            replace(self.fcn, depth=1, **given),
        )
        networks = common.trained(tasks, label="Colour")
        shallow, deep, connected, one_layer = networks
        return {
            "identity of the shallow CNN": common.identity_on_unseen(shallow.after),
            "initial identity of the shallow CNN": common.identity_on_unseen(shallow.before),
            "constant of the deep CNN": common.constant_on_unseen(deep.after),
            "initial constant of the deep CNN": common.constant_on_unseen(deep.before),
            "identity of the deep CNN": common.identity_on_unseen(deep.after),
            "constant of the deep FCN": common.constant_at_zero(connected.after),
            "initial constant of the deep FCN": common.constant_at_zero(connected.before),
            "larger cosine of one layer": max(
                abs(read(one_layer.after)) for read in (common.identity_at_zero, common.constant_at_zero)
            ),
            "loss": by(
                ("shallow CNN", "deep CNN", "deep FCN", "one layer"),
                [network.after.loss for network in networks],
            ),
        }


N_SEEDS = 3  # networks whose standard deviation is one measurement


@study("id.fig36.seeds")
class SeedsAndDigits(Study):
    """Is the outcome stable over seeds and over the training digit?"""

    # Three networks for each depth, and for each training digit.
    base: IdentityTask = DESK
    depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
    digits: tuple[str, ...] = ("7", "3", "0")
    digit_depth: int = 3

    scales = {"smoke": dict(base=SMOKE, depths=(1, 3), digits=("coffee", "rocket"))}

    def run(self) -> Measured:
        """Train with several seeds and compare."""
        seeds = [N_SEEDS * self.seed + i for i in range(N_SEEDS)]  # no two runs of the study share a network
        depths = [replace(self.base, depth=d, seed=s) for d in self.depths for s in seeds]
        digits = [
            replace(self.base, depth=self.digit_depth, labels=(digit,), seed=s)
            for digit in self.digits
            for s in seeds
        ]
        networks = common.trained([*depths, *digits], label="Seeds and digits")
        after = torch.tensor([common.mean_identity(network.after) for network in networks]).double()
        before = torch.tensor(
            [common.mean_identity(network.before) for network in networks[: len(depths)]]
        ).double()
        losses = torch.tensor([network.after.loss for network in networks[: len(depths)]])
        by_digit = after[len(depths) :].reshape(-1, N_SEEDS)
        return {
            "spread over seeds": by(self.depths, after[: len(depths)].reshape(-1, N_SEEDS).std(1)),
            "initial spread over seeds": by(self.depths, before.reshape(-1, N_SEEDS).std(1)),
            "spread over seeds and digits": float(by_digit.std()),
            "loss": by(self.depths, losses.reshape(-1, N_SEEDS).amax(1)),
        }


DEEP = ("FCN with 2 images", "FCN with 3 images", "CNN with 2 images")


def explained(images: Float[Tensor, "n c h w"], training: Float[Tensor, "k c h w"]) -> float:
    """Mean R squared of images regressed on training images and a constant."""
    y = images.double().flatten(1).mT
    design = torch.cat([training.double().flatten(1).mT, torch.ones(len(y), 1, dtype=torch.float64)], 1)
    left = y - design @ torch.linalg.lstsq(design, y).solution
    total = (y - y.mean(0)).square().sum(0)
    alive = total > 0
    return float((1 - left.square().sum(0)[alive] / total[alive]).mean())


@study("id.fig38.two_three")
class SeveralImages(Study):
    """Do deep networks answer with mixtures of their two or three training images?"""

    # Deep networks of both families, and one layer for comparison.
    base: IdentityTask = DESK_FCN
    convolutional: IdentityTask = DESK
    depth: int = 4
    cnn_depth: int = 20

    scales = {"smoke": dict(base=SMOKE_FCN, convolutional=SMOKE, cnn_depth=2)}

    def run(self) -> Measured:
        """Train on two and on three images."""
        fcn, cnn = replace(self.base, seed=self.seed), replace(self.convolutional, seed=self.seed)
        tasks = {
            DEEP[0]: replace(fcn, depth=self.depth, examples=2),
            DEEP[1]: replace(fcn, depth=self.depth, examples=3),
            DEEP[2]: replace(cnn, depth=self.cnn_depth, examples=2),
            "one layer with 2 images": replace(fcn, depth=1, examples=2),
        }
        networks = common.trained(list(tasks.values()), label="Two and three images")

        def mixture(task: IdentityTask, model: nn.Module) -> float:
            return explained(image_outputs(model, task.images.unseen), task.images.training)

        inputs = tasks[DEEP[0]].images
        return {
            "mixture": by(tasks, [mixture(net.task, net.model) for net in networks]),
            "initial mixture": by(tasks, [mixture(net.task, net.task.build()) for net in networks]),
            "mixture in the inputs themselves": explained(inputs.unseen, inputs.training),
            "loss": by(tasks, [net.after.loss for net in networks]),
        }
