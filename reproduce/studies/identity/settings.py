"""Studies of settings: channels, filters, sizes, initialisers, optimisers, skip connections."""

import itertools
from dataclasses import replace

import torch
from torch import Tensor

from firstlight.data.synthetic import correlated_images
from firstlight.measures.copy_or_memorise.identity_score import image_outputs, similarities
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity import common
from reproduce.studies.identity.common import DESK, DESK_28, DESK_FCN, NIGHT, SMOKE, SMOKE_FCN

FEW, USUAL, MANY = "few channels", "usual channels", "many channels"
FEW_DEEP, MANY_DEEP = "few channels in a deep network", "many channels in a deep network"


@study("id.fig10.channels_few", "id.fig10.channels_many")
class Channels(Study):
    """Are three channels too few, and do very many spoil or rescue anything?"""

    # Five layers with few, usual and many channels, and deep networks with few and with many.
    base: IdentityTask = DESK_28
    deep: IdentityTask = DESK  # deep networks reach the constant at 14 x 14
    few: int = 3
    usual: int = 16
    many: int = 64
    few_depth: int = 9
    many_depth: int = 20

    scales = {"smoke": dict(base=SMOKE, deep=SMOKE, many=6, few_depth=3, many_depth=3)}

    def run(self) -> Measured:
        """Train all widths."""
        base, deep = replace(self.base, seed=self.seed, depth=5), replace(self.deep, seed=self.seed)
        tasks = {
            FEW: replace(base, width=self.few),
            USUAL: replace(base, width=self.usual),
            MANY: replace(base, width=self.many),
            FEW_DEEP: replace(base, width=self.few, depth=self.few_depth),
            MANY_DEEP: replace(deep, width=self.many, depth=self.many_depth),
        }
        readings = common.with_initial(
            {"identity": common.identity_on_unseen, "constant": common.constant_on_unseen}
        )
        return common.read_all(readings, tasks, common.trained(list(tasks.values()), label="Channels"))


NARROW = replace(DESK, depth=3, width=8, initialiser="xavier_normal", steps=800, stop_below=1e-4)


@study("id.fig9.filter_size")
class FilterSize(common.IdentitySweep):
    """Do filters that cover the image favour the constant map?"""

    field = "kernel"
    readings = common.with_initial({"constant": common.mean_constant, "identity": common.mean_identity})
    scales = {
        "smoke": dict(base=replace(SMOKE, depth=3, width=2), values=(3, 9)),
        "desk": dict(base=NARROW, values=(5, 13, 29)),  # the last covers a 14 x 14 image from every pixel
        "night": dict(base=replace(NARROW, depth=5, width=16, image_size=28), values=(5, 13, 29, 57)),
    }


@study("id.fig8.image_size")
class ImageSize(common.IdentitySweep):
    """Do smaller training images push a network of fixed depth to the constant map?"""

    field = "image_size"
    readings = common.with_initial({"constant": common.mean_constant})
    scales = {
        "smoke": dict(base=replace(SMOKE, depth=2, width=4), values=(6, 8, 10)),
        "desk": dict(base=replace(DESK, depth=14, width=16), values=(10, 14, 20, 28)),
        "night": dict(base=replace(NIGHT, depth=14), values=(7, 14, 21, 28)),
    }


KAIMING = ("kaiming_normal", "kaiming_uniform")
OTHERS = ("default", "xavier_normal", "xavier_uniform", "orthogonal")


@study("id.fig31.init")
class Initialisers(common.IdentitySweep):
    """Do shallow networks learn the identity from every initialisation?"""

    field = "initialiser"
    readings = common.with_initial({"identity": common.identity_on_unseen})
    scales = {
        name: dict(base=replace(base, depth=3), values=(*OTHERS, *KAIMING))
        for name, base in (("smoke", SMOKE), ("desk", DESK_28))
    }


def _pairs(outputs: list[Tensor]) -> Tensor:
    """Mean Pearson between the answers of every two networks."""
    table = torch.eye(len(outputs), dtype=torch.float64)
    for i, j in itertools.combinations(range(len(outputs)), 2):
        table[i, j] = table[j, i] = similarities(outputs[i], outputs[j]).mean()
    return table


@study("id.fig32.optimisers")
class Optimisers(Study):
    """Do optimisers that reach the same loss from the same initial weights give the same answers?"""

    # Optimisers from one set of initial weights, and one optimiser from as many sets.
    base: IdentityTask
    optimisers: tuple[tuple[str, float, float], ...] = (  # name, rate, momentum
        ("sgd", 0.01, 0.9),
        ("adam", 1e-3, 0.0),
        ("rmsprop", 1e-3, 0.0),
        ("adamax", 2e-3, 0.0),
    )

    scales = {
        "smoke": dict(base=SMOKE),
        # one seed of RMSprop had not converged after 2000 steps
        "desk": dict(base=replace(DESK_28, steps=4000, stop_below=9e-4)),
    }

    def run(self) -> Measured:
        """Train with each optimiser, and with one of them from other initial weights."""

        def task(optimiser: tuple[str, float, float], seed: int) -> IdentityTask:
            name, lr, momentum = optimiser
            return replace(self.base, seed=seed, depth=5, optimiser=name, lr=lr, momentum=momentum)

        n = len(self.optimisers)
        adam = next(one for one in self.optimisers if one[0] == "adam")
        others = [1000 * (self.seed + 1) + i for i in range(n)]  # no other run of the study has these
        tasks = [*(task(one, self.seed) for one in self.optimisers), *(task(adam, seed) for seed in others)]
        networks = common.trained(tasks, label="Optimisers")
        images = tasks[0].images
        zero = torch.zeros(1, dtype=torch.float64)
        noise = correlated_images(images.training[0], zero, draws=20, seed=self.seed)[0].float()
        answers = [image_outputs(network.model, noise) for network in networks]
        names = [f"{name} {lr:g}" for name, lr, _ in self.optimisers]
        return {
            "smallest agreement": float(_pairs(answers[:n]).min()),
            "smallest agreement over initial weights": float(_pairs(answers[n:]).min()),
            "loss": by(names, [network.after.loss for network in networks[:n]]),
        }


LEAD = "lead of residual over plain networks"


@study("id.fig41.residual")
class Residual(Study):
    """Do identity skips bias fully connected networks to the identity?"""

    # Residual networks, and plain ones of equal depth.
    base: IdentityTask
    blocks: tuple[int, ...] = (1, 2, 4)  # of two weight layers each

    scales = {"smoke": dict(base=SMOKE_FCN, blocks=(1, 2)), "desk": dict(base=DESK_FCN)}

    def run(self) -> Measured:
        """Train residual and plain networks of equal depth."""
        base = replace(self.base, seed=self.seed)
        tasks = [replace(base, family="residual_fcn", depth=blocks) for blocks in self.blocks]
        networks = common.trained(
            [*tasks, *(replace(base, depth=2 * b) for b in self.blocks)], label="Residual"
        )
        n, readings = len(self.blocks), common.with_initial({"identity": common.identity_on_unseen})
        residual, plain = (
            common.read_all(readings, self.blocks, part) for part in (networks[:n], networks[n:])
        )
        return {
            **{f"{name} of residual networks": series for name, series in residual.items() if name != "loss"},
            **{f"{name} of plain networks": series for name, series in plain.items() if name != "loss"},
            LEAD: by(self.blocks, residual["identity"].values - plain["identity"].values),
            "loss": by(
                [f"{kind} {blocks}" for kind in ("residual", "plain") for blocks in self.blocks],
                [network.after.loss for network in networks],
            ),
        }
