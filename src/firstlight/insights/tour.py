"""A short study of one small network on real images: what the tour page shows."""

import time
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.insights.ansatz_tour import AnsatzTour, ansatz_tour
from firstlight.insights.explain_profile import ProfileExplanation, explain_profile
from firstlight.insights.identity_tour import IdentityTour, run_identity_tour
from firstlight.insights.order_tour import OrderTour, run_order_tour
from firstlight.measures import (
    Agreement,
    Consistency,
    FrequencyReading,
    agreement,
    band_energy,
    component_frequencies,
    consistency,
    patch_basis,
    profile_in,
    profile_of,
    profiles_over_time,
)
from firstlight.models.spec import ModelSpec
from firstlight.store import Store
from firstlight.training import (
    Observer,
    Recipe,
    Snapshots,
    Trained,
    accuracy,
    geometric_steps,
    train_ensemble,
)

SECONDS_A_STEP = 0.05  # small network, batch of 32, one core; only decides how long we train


@dataclass(frozen=True, kw_only=True)
class FirstLayerTour(Result):
    """What the first layer learned.

    Parameters
    ----------
    explanation : profile of the first network with its theory curve.
    energies, initial : trained and initial profile of every network.
    consistency : correlation of all networks, controls included.
    pair : the first two networks in detail.
    steps, growth : profile of the accumulated update at snapshots of the first network.
    bands : share of the energy of the update (trained minus initial) in low, middle and high frequency.
    components : frequency of every component.
    moved : how far the first layer moved, relative to its start.
    filters : of the first network.
    """

    explanation: ProfileExplanation
    energies: Float[Tensor, "nets m"]
    initial: Float[Tensor, "nets m"]
    consistency: Consistency
    pair: Agreement
    steps: tuple[int, ...]
    growth: Float[Tensor, "t m"]
    bands: Float[Tensor, " 3"]
    components: FrequencyReading
    moved: Float[Tensor, " nets"]
    filters: Float[Tensor, "k c h w"]


@dataclass(frozen=True, kw_only=True)
class Tour(Result):
    """Everything that a tour measured."""

    data_name: str
    n_images: int
    recipe: str
    train_accuracy: Float[Tensor, " nets"]
    test_accuracy: Float[Tensor, " nets"]
    chance: float
    loss: Float[Tensor, "nets epochs"]
    first_layer: FirstLayerTour
    order: OrderTour
    ansatz: AnsatzTour
    identity: IdentityTour
    seconds: float


@dataclass(frozen=True)
class _FirstLayerSnapshots:
    """Makes the observer of one training; named, so that the run can be stored."""

    total: int
    name: str = "first-layer snapshots"

    def __call__(self, steps_per_epoch: int) -> list[Observer]:
        return [Snapshots(["0.weight"], steps=geometric_steps(self.total))]


def run_tour(
    train: ImageData,
    test: ImageData,
    *,
    minutes: float = 5.0,
    n_networks: int = 3,
    seed: int = 0,
    store: Store | None = None,
) -> Tour:
    """Train a few small networks on `train` and measure what they learned, in what order, and why.

    Parameters
    ----------
    train, test : images in [0, 1].
    minutes : what the whole may take on two cores; decides the number of steps.
    n_networks : with seeds `seed`, `seed + 1`, ...
    store : networks that are there already are not trained again.
    """
    start = time.perf_counter()
    spec = ModelSpec(name="small", classes=train.n_classes, shape=train.shape)
    rounds = -(-n_networks // 2)
    per_epoch = -(-len(train) // 32)
    affordable = int(0.4 * 60 * minutes / rounds / SECONDS_A_STEP / per_epoch)
    recipe = Recipe(lr=0.1, batch_size=32, epochs=max(1, min(12, affordable)), seed=seed)
    observe = _FirstLayerSnapshots(recipe.total_steps(len(train)))
    nets = train_ensemble(
        spec, n_networks, train, recipe, observe=observe, store=store, label="Training networks"
    )
    models = [net.into(spec(net.seed)) for net in nets]
    layer = _first_layer(spec, nets, models, train, seed)
    return Tour(
        data_name=str(train.meta.get("name", "images")),
        n_images=len(train),
        recipe=f"{n_networks} networks, SGD, rate {recipe.lr}, batch 32, {recipe.epochs} epochs",
        train_accuracy=torch.tensor([accuracy(m, train) for m in models]),
        test_accuracy=torch.tensor([accuracy(m, test) for m in models]),
        chance=float(test.counts.max()) / len(test),
        loss=torch.stack([net.history.by_epoch() for net in nets]),
        first_layer=layer,
        order=run_order_tour(train, minutes=0.3 * minutes, seed=seed, store=store),
        ansatz=ansatz_tour(models[0], spec(nets[0].seed), test, seed=seed),
        identity=run_identity_tour(depths=(1, 3, 5, 10, 20) if minutes >= 1 else (1, 5), store=store),
        seconds=time.perf_counter() - start,
    )


def _first_layer(
    spec: ModelSpec, nets: list[Trained], models: list[nn.Module], train: ImageData, seed: int
) -> FirstLayerTour:
    explanation = explain_profile(models[0], train, seed=seed)
    first = explanation.profile
    profiles = {
        f"seed {net.seed}": profile_of(m, train, seed=seed) for net, m in zip(nets, models, strict=True)
    }
    starts = [spec(net.seed) for net in nets]
    update = profile_of(models[0], train, subtract=starts[0], seed=seed)
    initial = []
    for model in starts:
        layer, _ = patch_basis(model, train, n_images=8)
        initial.append(profile_in(layer, first.pca).energy)
    shots = nets[0].records[0]
    moved = [
        float((n.weights["0.weight"] - n.initial["0.weight"]).norm() / n.initial["0.weight"].norm())
        for n in nets
    ]
    return FirstLayerTour(
        explanation=explanation,
        energies=torch.stack([p.energy for p in profiles.values()]),
        initial=torch.stack(initial),
        consistency=consistency(profiles),
        pair=agreement(*list(profiles.values())[:2], seed=seed),
        steps=tuple(int(s) for s in shots["steps"]),
        growth=profiles_over_time(shots["0.weight"], first, subtract_first=True),
        bands=band_energy(update),
        components=component_frequencies(first),
        moved=torch.tensor(moved),
        filters=first.layer.weight,
    )
