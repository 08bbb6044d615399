"""Study of what survives from layer to layer, before and after training."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from firstlight.data.catalogue import load
from firstlight.data.images import ImageData
from firstlight.data.interventions.normalisation import MNIST_NORMALISATION, ChannelNormalisation
from firstlight.maths.correlation import spearman
from firstlight.measures.copy_or_memorise.layer_images import layer_images, resized
from firstlight.measures.layers.layer_probe import layer_probe
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.identity.common import DESK_28, SMOKE, trained

XAVIER = replace(DESK_28, initialiser="xavier_normal", steps=2000, stop_below=1e-3)
RANDOM, TRAINED, INITIAL = "random deep network", "trained network", "initial network"
TREND = "rank correlation of likeness with layer in the random deep network"
EARLY = 10  # layers over which the trend is taken


def _labelled(dataset: str, split: str, n: int, side: int, seed: int) -> ImageData:
    data = load(dataset, split=split, seed=seed)
    data = data.sample(min(n, len(data)), seed=seed)
    norm = MNIST_NORMALISATION if data.shape[0] == 1 else ChannelNormalisation.fit(data)
    return data.replace(x=norm.normalised(resized(data.x, side)).float())


def _likeness(model: nn.Module, images: Tensor) -> Tensor:
    """Absolute Pearson of every layer's top singular image with the input, mean over inputs."""
    return torch.stack([layer_images(model, image).singular_similarity for image in images]).mean(0)


@study(
    "id.fig5.probe_random", "id.fig5.probe_trained", "id.fig15.random_smoothing", "id.fig15.trained_layers"
)
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
    }

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
