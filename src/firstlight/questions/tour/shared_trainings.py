"""What the parts of a tour share: the images, the time there is, and networks that are trained only once."""

from dataclasses import dataclass
from functools import cached_property

from torch import nn

from firstlight._internal.store.runs import Store
from firstlight.data.images import ImageData
from firstlight.models.building import ModelSpec
from firstlight.questions.first_layer.tour_part import FirstLayerSnapshots
from firstlight.training.ensemble import Trained, train_ensemble
from firstlight.training.recipe import Recipe

SECONDS_A_STEP = 0.05  # small network, batch of 32, one core; only decides how long we train


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What every part of a tour may use; networks are trained when the first part asks for them.

    Parameters
    ----------
    train, test : ImageData
        Images in [0, 1].
    minutes : float
        Time for the whole tour on two cores.
    n_networks, seed : int
        Number of networks, and the seed of the first.
    store : Store or None
        Where networks are kept.
    """

    train: ImageData
    test: ImageData
    minutes: float
    n_networks: int
    seed: int
    store: Store | None

    @property
    def spec(self) -> ModelSpec:
        """The small network."""
        return ModelSpec(name="small", classes=self.train.n_classes, shape=self.train.shape)

    @property
    def recipe(self) -> Recipe:
        """As many epochs as two fifths of the time allow, at most twelve."""
        rounds = -(-self.n_networks // 2)
        per_epoch = -(-len(self.train) // 32)
        affordable = int(0.4 * 60 * self.minutes / rounds / SECONDS_A_STEP / per_epoch)
        return Recipe(lr=0.1, batch_size=32, epochs=max(1, min(12, affordable)), seed=self.seed)

    @property
    def recipe_words(self) -> str:
        """The recipe as a reader should see it."""
        recipe = self.recipe
        return f"{self.n_networks} networks, SGD, rate {recipe.lr}, batch 32, {recipe.epochs} epochs"

    @cached_property
    def nets(self) -> list[Trained]:
        """The networks of the tour, with snapshots of their first layers."""
        observe = FirstLayerSnapshots(self.recipe.total_steps(len(self.train)))
        return train_ensemble(
            self.spec, self.n_networks, self.train, self.recipe,
            observe=observe, store=self.store, label="Training networks",
        )  # fmt: skip

    @cached_property
    def models(self) -> list[nn.Module]:
        """The same as modules."""
        return [net.into(self.spec(net.seed)) for net in self.nets]
