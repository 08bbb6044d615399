"""Studies of depth: from copies to the constant."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from firstlight.maths import spearman
from firstlight.measures.copy_or_memorise.identity_score import edge_score, image_outputs, similarities
from firstlight.questions.copy_or_memorise.images import resized
from firstlight.questions.copy_or_memorise.task import Findings, IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.identity import common
from reproduce.studies.identity.common import DESK, DESK_28, DESK_FCN, NIGHT, SMOKE, SMOKE_FCN
from reproduce.studies.identity.layer_images import (
    output_variation,
    size_response,
    upper_outputs,
    with_circular_padding,
)

TREND = "smaller rank correlation with depth"


@study("id.fig3.deep_cnn", "id.fig4.depth_monotone")
class CnnDepth(common.IdentitySweep):
    """Does a convolutional network turn from the identity to the constant map as it gets deeper?"""

    field = "depth"
    readings = common.with_initial(
        {
            "identity": common.mean_identity,
            "constant": common.mean_constant,
            "identity on unseen": common.identity_on_unseen,
            "constant on unseen": common.constant_on_unseen,
        }
    )
    scales = {
        "smoke": dict(base=SMOKE, values=(1, 3, 5)),
        "desk": dict(base=DESK, values=(1, 3, 5, 7, 10, 14, 20)),
        "night": dict(base=NIGHT, values=(1, 3, 5, 7, 10, 14, 20)),
    }

    def further(self, networks: list[common.Network]) -> Measured:
        """Trends over depth."""
        depths = torch.tensor(self.values, dtype=torch.float64)

        def trend(read: common.Reading) -> float:
            return float(spearman(depths, torch.tensor([read(n.after) for n in networks]).double()))

        return {TREND: min(-trend(common.mean_identity), trend(common.mean_constant))}


@study("id.fig3.shallow_cnn", "id.fig6.larger_inputs")
class CnnShallow(common.IdentitySweep):
    """Do shallow convolutional networks learn the identity from one image, and keep it at other sizes?"""

    # A sweep over depth, and what is shown to the network of five layers.
    values: tuple[int, ...] = (1, 3, 5)
    sides: tuple[int, ...] = (7, 14, 28, 56, 112)
    n_probes: int = 5  # images at every size: 112 pixels cost sixteen times 28

    field = "depth"
    readings = common.with_initial({"identity": common.identity_on_unseen})
    scales = {"smoke": dict(base=SMOKE, n_probes=2), "desk": dict(base=DESK_28)}

    def further(self, networks: list[common.Network]) -> Measured:
        """Show images of other sizes to five layers."""
        five = networks[self.values.index(5)]
        probes = five.task.images.unseen[: self.n_probes]
        drawn = [replace(five.task, seed=1000 * (self.seed + 1) + i).build() for i in range(N_INITIAL)]
        initial = [size_response(model, probes, self.sides).identity for model in drawn]
        return {
            "identity by five layers": by(self.sides, size_response(five.model, probes, self.sides).identity),
            "identity by five initial layers": by(self.sides, torch.stack(initial).mean(0)),
        }


NEAR = 2  # pixels around the trained size


N_INITIAL = 12  # initial networks whose mean is the null: one alone varies from -0.6 to 0.9 on large inputs


def _likeness(outputs: Tensor, target: Tensor) -> float:
    return float(similarities(outputs, target.expand_as(outputs)).mean())


def anchored(image: Tensor, side: int) -> Tensor:
    """One image of another size with what the given one has at its corners: borders are the cue for the place.

    Each quarter of the result is filled from its own corner. A larger image has the value of the nearest kept pixel
    between the quarters, a smaller one lacks the middle.
    """
    own = image.shape[-1]
    place = torch.arange(side)
    near_end = place >= side / 2
    rows = torch.where(near_end, own - side + place, place)
    middle = own // 2
    rows = torch.where(near_end, rows.clamp(min=middle), rows.clamp(max=middle))
    return image[..., rows[:, None], rows]


@study("id.fig7.constant_sizes", "id.fig22.upper_subnets", "id.fig21.boundary_growth")
class DeepConstant(Study):
    """Where in a deep network, and from which cues, does the memorised image come?"""

    # One deep network, shown inputs of other sizes, cut, and deprived of its borders.
    base: IdentityTask
    depth: int = 20
    sides: tuple[int, ...] = (26, 27, 28, 29, 30)
    layers: tuple[int, ...] = (1, 2, 3, 6, 10)

    n_seeds = 10  # upper layers differ much from seed to seed
    scales = {
        "smoke": dict(base=SMOKE, depth=3, sides=(6, 8, 10), layers=(1, 2)),
        "desk": dict(base=DESK, sides=(10, 12, 13, 14, 15, 16, 20, 24)),
        "night": dict(base=NIGHT, sides=(14, 26, 28, 30, 56)),
    }

    def run(self) -> Measured:
        """Probe the network before and after training."""
        task = replace(self.base, seed=self.seed, depth=self.depth)
        (network,) = common.trained([task], label="Deep network")
        before = _probed(task.build(), self, task)
        return {
            **_probed(network.model, self, task),
            **{f"initial {name}": number for name, number in before.items()},
            "loss": network.after.loss,
        }


def _probed(model: nn.Module, cfg: DeepConstant, task: IdentityTask) -> dict[str, float | Series]:
    images = task.images
    target, probes = images.training[:1], torch.cat([images.unseen, images.patterns])
    sized = {side: image_outputs(model, resized(images.unseen, side)) for side in cfg.sides}
    variation = {side: output_variation(outputs) for side, outputs in sized.items()}
    likeness = {side: _likeness(outputs, anchored(target, side)) for side, outputs in sized.items()}
    near = [side for side in cfg.sides if abs(side - task.image_size) <= NEAR]
    upper = [_likeness(upper_outputs(model, probes, layers=k), target) for k in cfg.layers]
    return {
        "variation near the trained size": max(variation[side] for side in near),
        "likeness near the trained size": min(likeness[side] for side in near),
        "likeness from upper layers": by(cfg.layers, upper),
        "likeness": _likeness(image_outputs(model, images.unseen), target),
        "likeness without borders": _likeness(
            image_outputs(with_circular_padding(model), images.unseen), target
        ),
    }


FAMILIES = {"ReLU": "fcn", "linear": "linear_fcn"}


@study("id.fig2.shallow_fcn", "id.fig2.deep_fcn", "id.fig11.linear_deep", "id.fig14.relu_sooner")
class FcnDepth(Study):
    """Do fully connected networks turn from noise to the constant map as they get deeper?"""

    # ReLU and linear networks at every depth; all cosines are those at rho = 0.
    base: IdentityTask
    depths: tuple[int, ...] = (1, 2, 4, 6, 10)  # weight layers; 4 is three hidden layers
    narrow: int  # width of a second linear network of four layers

    scales = {
        "smoke": dict(base=SMOKE_FCN, narrow=8, depths=(1, 2, 4, 6)),
        "desk": dict(base=DESK_FCN, narrow=392),
    }

    def run(self) -> Measured:
        """Train both families at every depth."""
        base, n = replace(self.base, seed=self.seed), len(self.depths)
        tasks = [replace(base, family=family, depth=d) for family in FAMILIES.values() for d in self.depths]
        tasks.append(replace(base, family="linear_fcn", depth=4, width=self.narrow))
        networks = common.trained(tasks, label="Fully connected")
        labels = [f"{name} {d}" for name in FAMILIES for d in self.depths]
        measured: dict[str, float | Series] = {
            "loss": by([*labels, "narrow linear"], [network.after.loss for network in networks]),
            "constant of a narrow linear network": common.constant_at_zero(networks[-1].after),
        }
        for start, name in zip((0, n), FAMILIES, strict=True):
            family = networks[start : start + n]
            for word, read in (("identity", common.identity_at_zero), ("constant", common.constant_at_zero)):
                measured[f"{word} of {name} networks"] = by(self.depths, [read(net.after) for net in family])
                measured[f"initial {word} of {name} networks"] = by(
                    self.depths, [read(net.before) for net in family]
                )
        return measured


def _agreement(networks: list[Findings], reference: str) -> float:
    """Rank correlation of error and distance to a reference over the grid of depth and angle."""
    responses = [findings.response for findings in networks]
    error = torch.stack([getattr(response, f"mse_{reference}") for response in responses]).flatten()
    distance = torch.stack([1 - getattr(response, reference) for response in responses]).flatten()
    return float(spearman(error, distance))


@study("id.fig33_35.mse")
class MseStory(Study):
    """Do error maps tell the same story as correlation maps?"""

    # Both families at several depths.
    cnn: IdentityTask = DESK
    cnn_depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
    fcn: IdentityTask = DESK_FCN
    fcn_depths: tuple[int, ...] = (1, 2, 4, 6)

    scales = {"smoke": dict(cnn=SMOKE, cnn_depths=(1, 3), fcn=SMOKE_FCN, fcn_depths=(1, 2))}

    def run(self) -> Measured:
        """Compare over the grid."""
        tasks = {f"CNN {d}": replace(self.cnn, seed=self.seed, depth=d) for d in self.cnn_depths}
        tasks |= {f"FCN {d}": replace(self.fcn, seed=self.seed, depth=d) for d in self.fcn_depths}
        networks = common.trained(list(tasks.values()), label="Two maps")
        n = len(self.cnn_depths)
        families = {"CNN": networks[:n], "FCN": networks[n:]}
        cases = [(family, reference) for family in families for reference in ("identity", "constant")]
        names = [" ".join(case) for case in cases]
        after = [_agreement([net.after for net in families[f]], reference) for f, reference in cases]
        before = [_agreement([net.before for net in families[f]], reference) for f, reference in cases]
        return {
            "agreement": by(names, after),
            "initial agreement": by(names, before),
            "loss": by(tasks, [net.after.loss for net in networks]),
        }


FULL_SIZE = replace(DESK_28, steps=2000, stop_below=1e-3)


@study("id.fig3.edge_detector")
class Edges(common.IdentitySweep):
    """Do networks of about ten layers respond to contours rather than copy?"""

    field = "depth"
    readings = common.with_initial(
        {
            "contours / copy": lambda findings: findings.edges.relative,
            "contours": lambda findings: float(findings.edges.edges.mean()),
        }
    )
    scales = {
        "smoke": dict(base=SMOKE, values=(3, 10)),
        "desk": dict(base=FULL_SIZE, values=(3, 10, 12, 15)),
        "night": dict(base=NIGHT, values=(3, 10, 12, 15, 17)),
    }

    def further(self, networks: list[common.Network]) -> Measured:
        """The ratio of a network that copies exactly."""
        images = networks[0].task.images.unseen
        return {"contours / copy of an exact copy": edge_score(images, images).relative}
