"""Study of SimpleNet at an eighth of its width."""

from dataclasses import dataclass

from firstlight._internal.store.runs import Store
from firstlight.data.catalogue import load
from firstlight.measures.feature_ansatz.ansatz import FILTERS, INITIAL, TRAINED, ansatz
from firstlight.models.building import ModelSpec
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.training.ensemble import train_once
from firstlight.training.loop import accuracy
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by


@study("cnfa.fig8a.simplenet", "cnfa.fig8b.accuracy")
class AnsatzSimplenet(Study):
    """Does a deep network with batch norm, trained from tiny weights, obey the ansatz in every layer?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One data set; the paper has five."""

        data: str = "mnist"
        n: int = 4000
        width: float = 0.125
        epochs: int = 8
        lr: float = 1.0  # Adadelta
        agop_images: int = 64
        seed: int = 0

    scales = {
        "smoke": Config(data="photos", n=128, epochs=2, agop_images=8),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train by Adadelta from tiny weights and measure on unseen images.

        The paper's weights of 1e-4 are scaled up where the network is narrower, so that each layer
        passes on as much; at an eighth of the width they would vanish below the constant that batch
        norm adds to its variances, and nothing would be learned.
        """
        train, test = load(cfg.data, n=cfg.n, seed=cfg.seed), load(cfg.data, split="test", seed=cfg.seed)
        spec = ModelSpec(
            name="simplenet", classes=train.n_classes, shape=train.shape, initialiser="normal",
            initialiser_options={"std": 1e-4 / cfg.width**0.5}, options={"width": cfg.width},
        )  # fmt: skip
        recipe = Recipe(
            optimiser="adadelta", lr=cfg.lr, weight_decay=1e-4, batch_size=64, epochs=cfg.epochs,
            milestones=(0.6, 0.85), seed=cfg.seed,
        )  # fmt: skip
        model = train_once(spec, train, recipe, store=Store()).into(spec(cfg.seed))
        images = test.sample(min(cfg.agop_images, len(test)), seed=cfg.seed)
        correct = accuracy(model, test)
        # in float64: thirteen layers of 1e-4 leave nothing of a float32 gradient
        initial = spec(cfg.seed).double()
        agreement = ansatz(model.double(), images, initial=initial, layers="convolutions", seed=cfg.seed)
        layers = [f"convolution {i + 1}" for i in range(len(agreement.layers))]
        return {
            "Pearson": by(layers, agreement.values(TRAINED)),
            "Pearson with rotated gradients": by(layers, agreement.values(TRAINED, "null_pearson")),
            "Pearson of the initial network": by(layers, agreement.values(INITIAL)),
            "Pearson of initial and trained filters": float(agreement.values(FILTERS).mean()),
            "isotropy of Q": float(agreement.values(TRAINED, "isotropy").mean()),
            "test accuracy": correct,
            "accuracy in per cent": by([cfg.data], [100 * correct]),
            "most frequent class in per cent": 100 * float(test.y.bincount().max()) / len(test),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw every layer with its null."""
        series = {"": "trained", " with rotated gradients": "null", " of the initial network": "initial"}
        return dots(
            [str(point) for point in evidence.points("Pearson")],
            [
                Dots.of(f"Pearson{name}", list(evidence.table(f"Pearson{name}").unbind(1)), role=role)
                for name, role in series.items()
            ],
            title="SimpleNet, layer by layer",
            alt="Pearson correlation of feature matrix and gradient outer product for thirteen convolutions",
            y="Pearson correlation",
        )
