"""Study of what survives from layer to layer, before and after training."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Evidence, Measured, by
from firstlight.claims.identity.common import DESK_28, PAPER, SMOKE, trained
from firstlight.claims.quantities import at_end, lowest, value
from firstlight.claims.rules import Rule
from firstlight.claims.study import Study, study
from firstlight.data.catalogue import load
from firstlight.data.images import ImageData
from firstlight.data.interventions.normalisation import MNIST_NORMALISATION, ChannelNormalisation
from firstlight.maths.correlation import spearman
from firstlight.measures.copy_or_memorise.layer_images import layer_images, resized
from firstlight.measures.layers import layer_probe
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.questions.copy_or_memorise.task import IdentityTask

XAVIER = replace(DESK_28, initialiser="xavier_normal", steps=2000, stop_below=1e-3)
RANDOM, TRAINED, INITIAL = "random deep network", "trained network", "initial network"
TREND = "rank correlation of likeness with layer in the random deep network"
EARLY = 10  # layers over which the trend is taken

rise = value(f"error in the {RANDOM}", at=10) - value(f"error in the {RANDOM}", at=0)
regained = value("largest error in the middle") - value("error at the output")
fades = value(f"likeness in the {RANDOM}", at=10) < value(f"likeness in the {RANDOM}", at=2)
IS_TRAINED = value("loss") < 0.01


def _labelled(dataset: str, split: str, n: int, side: int, seed: int) -> ImageData:
    data = load(dataset, split=split, seed=seed)
    data = data.sample(min(n, len(data)), seed=seed)
    norm = MNIST_NORMALISATION if data.shape[0] == 1 else ChannelNormalisation.fit(data)
    return data.replace(x=norm.normalised(resized(data.x, side)).float())


def _likeness(model: nn.Module, images: Tensor) -> Tensor:
    """Absolute Pearson of every layer's top singular image with the input, mean over inputs."""
    return torch.stack([layer_images(model, image).singular_similarity for image in images]).mean(0)


@study
class Probes(Study):
    """How much of the input survives each layer of an untrained and of a trained network?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """A random deep network, and one of moderate depth before and after training."""

        base: IdentityTask
        trained: IdentityTask = XAVIER
        depth: int = 10
        random_depth: int = 20
        n_train: int = 2000
        n_test: int = 500
        n_shown: int = 5  # unseen images whose singular images are taken
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, trained=SMOKE, depth=3, random_depth=10, n_train=40, n_test=20),
        "desk": Config(base=DESK_28),
        "paper": Config(base=PAPER, trained=PAPER, n_train=60_000, n_test=10_000, n_shown=30),
    }
    rules = (
        Rule(
            claim="id.fig5.probe_random",
            effect=all_of(lowest(f"error in the {RANDOM}", over=range(8, 21)) > 0.8, rise > 0.2),
            reduced=rise > 0.2,
            null=value(f"error in the {RANDOM}", at=10) > value(f"error in the {TRAINED}", at=10),
        ),
        Rule(
            claim="id.fig5.probe_trained",
            effect=regained > 0.05,
            reduced=regained > 0,
            null=regained
            > value("largest initial error in the middle") - value("initial error at the output"),
            requires=IS_TRAINED,
        ),
        Rule(
            claim="id.fig15.random_smoothing",
            effect=all_of(value(TREND) < 0, value(f"likeness in the {RANDOM}", at=10) < 0.5, fades),
            reduced=fades,
            null=value(f"likeness in the {RANDOM}", at=10) < value(f"likeness in the {TRAINED}", at=10),
            note="likeness: absolute Pearson of a layer's top singular image with the input",
        ),
        Rule(
            claim="id.fig15.trained_layers",
            effect=value(f"likeness in the {TRAINED}", at=10) > 0.5,
            reduced=at_end(f"likeness in the {TRAINED}", end="last") > 0.5,
            null=at_end(f"likeness in the {TRAINED}", end="last")
            > at_end(f"likeness in the {INITIAL}", end="last"),
            requires=IS_TRAINED,
            note="on unseen images, so that the network cannot draw them from memory",
        ),
    )

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Probe all three networks."""
        side, name = cfg.base.image_size, cfg.base.dataset
        data = [
            _labelled(name, split, n, side, cfg.seed)
            for split, n in (("train", cfg.n_train), ("test", cfg.n_test))
        ]
        random = replace(cfg.base, seed=cfg.seed, depth=cfg.random_depth)
        (network,) = trained([replace(cfg.trained, seed=cfg.seed, depth=cfg.depth)], label="Probes")
        models = {RANDOM: random.build(), TRAINED: network.model, INITIAL: network.task.build()}
        probes = {key: layer_probe(model, *data) for key, model in models.items()}
        unseen = random.images.unseen[: cfg.n_shown]
        shown = {RANDOM: random.images.training[:1], TRAINED: unseen, INITIAL: unseen}
        likeness = {key: _likeness(model, shown[key]) for key, model in models.items()}
        early = likeness[RANDOM][:EARLY]
        after, before = probes[TRAINED].errors, probes[INITIAL].errors
        return {
            **{f"error in the {key}": by(range(len(p.errors)), p.errors) for key, p in probes.items()},
            **{f"likeness in the {key}": by(range(1, len(v) + 1), v) for key, v in likeness.items()},
            TREND: float(spearman(torch.arange(len(early)).double(), early)),
            "chance": probes[RANDOM].chance,
            "largest error in the middle": float(after[1:-1].max()),
            "error at the output": float(after[-1]),
            "largest initial error in the middle": float(before[1:-1].max()),
            "initial error at the output": float(before[-1]),
            "loss": network.after.loss,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Error by layer, as far as the trained network goes."""
        points = evidence.points(f"error in the {TRAINED}")
        tables = {key: evidence.table(f"error in the {key}")[:, : len(points)] for key in (TRAINED, RANDOM)}
        chance = evidence.table("chance").expand(-1, len(points))
        return curves(
            [
                Curve(name=TRAINED, values=tables[TRAINED]),
                Curve(name=RANDOM, values=tables[RANDOM], role="initial"),
                Curve(name="chance", values=chance, role="null"),
            ],
            title="Error of the averaging classifier by layer",
            alt="The untrained network loses the classes; the trained ones lose and regain them",
            x="layer (0 is the input)",
            y="error",
            at=[float(point) for point in points],
        )
