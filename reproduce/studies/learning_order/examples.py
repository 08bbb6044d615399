"""Studies of the order in which examples are learned."""

import torch
from torch import Tensor, nn

from firstlight._internal.executor import map_tasks
from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData
from firstlight.data.interventions import shuffled_labels
from firstlight.maths import PCA, image_pca, pearson, spearman
from firstlight.measures.learning_order.accessibility import (
    AccessibilityHistory,
    AccessibilityRecorder,
    history_of,
)
from firstlight.measures.learning_order.critical_component import critical_component
from firstlight.measures.learning_order.discriminability import (
    discriminabilities,
    discriminability,
    penultimate_features,
)
from firstlight.models import ModelSpec, build
from firstlight.training import Recipe, Trained, geometric_steps, train
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.learning_order import common
from reproduce.studies.learning_order.principal_components import ComponentProjection, ZCAWhitening

LINEAR = "correlation with linear networks"
SMOOTHED, POINTWISE = ("correlation with the critical component" + how for how in (" smoothed", ""))
CORRECTED = "corrected for attenuation"
RAW, PENULTIMATE = "discriminability in pixels", "discriminability in the last hidden layer"


@study(
    "pcbias.fig5a",
    "pcbias.fig5b",
    "loc.fig6a",
    "loc.fig6b",
    "spectral.table1.raw",
    "spectral.table1.penultimate",
)
class CnnOrder(common.CnnStudy):
    """What predicts the order in which a CNN learns: linear networks, components, neighbours?"""

    # Data and networks.
    many: str = "cifar10"  # ten classes, for the second study of projections
    n: int = 2000
    n_test: int = 1000
    lr: float = 0.05
    epochs: int = 25
    nets: int = 2
    linear_nets: int = 4
    linear_lr: float = 0.003
    linear_epochs: int = 10
    numbers: tuple[int, ...] = (2, 5, 20, 100)

    drawn = "P = "
    axes = ("epoch", "test accuracy on P components")
    scales = {
        "smoke": dict(
            **common.SMOKE_CNN, many="photos", n=200, n_test=100, epochs=2, linear_nets=2, linear_epochs=2,
            numbers=(2, 5, 20),
        ),
        "night": dict(n=5000, halve=False, epochs=40, linear_epochs=20),
    }  # fmt: skip

    def run(self) -> Measured:
        """Train the ensembles once and read everything from them."""
        train, test = common.pair(self.data, self.n, self.n_test, seed=self.seed, halve=self.halve)
        pca = image_pca(train.x)
        nets, order, peaks = _projected(self, train, test, pca, self.nets)
        scores, own = order.scores, common.reliability(order)
        linear = _linear_order(self, train, test)
        on_scores = float(pearson(scores, linear.scores))
        critical = _critical(self, train, test, pca, scores)
        other = common.pair(self.many, self.n, self.n_test, seed=self.seed, halve=self.halve)
        many_nets, _, many = _projected(self, *other, image_pca(other[0].x), max(1, self.nets // 2))
        return {
            **peaks,
            **{f"{name} with ten classes": v for name, v in many.items() if not isinstance(v, Tensor)},
            "training accuracy": common.training_accuracy(nets),
            "training accuracy with ten classes": common.training_accuracy(many_nets),
            "reliability of the accessibility": own,
            LINEAR: on_scores,
            f"{LINEAR}, {CORRECTED}": common.without_attenuation(on_scores, own, common.reliability(linear)),
            f"{LINEAR} on shuffled labels": float(
                pearson(scores, _linear_order(self, shuffled_labels(train, seed=self.seed), test).scores)
            ),
            **critical,
            f"{POINTWISE}, {CORRECTED}": common.without_attenuation(critical[POINTWISE], own),
            **_neighbours(self, test, nets[0], scores),
        }


def _projected(
    cfg: CnnOrder, train: ImageData, test: ImageData, pca: PCA, nets: int
) -> tuple[list[Trained], AccessibilityHistory, dict[str, float | Series | Tensor]]:
    """Train CNNs; when does the accuracy on test images peak that are projected to few components?"""
    ends = (cfg.numbers[0], cfg.numbers[-1])
    control = common.random_directions(pca, seed=cfg.seed)
    probes = [ComponentProjection.fit(train, p, pca=pca).transform(test) for p in cfg.numbers]
    probes += [ComponentProjection.fit(train, p, pca=control).transform(test) for p in ends]
    spec, recipe = cfg.spec(train), cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
    members, (order, *probed) = common.histories(
        spec, nets, train, recipe, test, *probes, label="Training CNNs"
    )
    rows = [history.accuracy.mean(0) for history in probed]
    times = [(int(row.argmax()) + 1) / len(row) for row in rows]
    count = len(cfg.numbers)
    measured: dict[str, float | Series | Tensor] = {
        "peak time": by(cfg.numbers, times[:count]),
        "peak time on random directions": by(ends, times[count:]),
        "fall of accuracy": float(rows[0].max() - rows[0][-1]),
        **{f"P = {p}": row for p, row in zip(cfg.numbers, rows, strict=False)},
        "P = all": order.accuracy.mean(0),
    }
    return members, order, measured


def _linear_order(cfg: CnnOrder, train: ImageData, test: ImageData) -> AccessibilityHistory:
    """What two-layer linear networks learn, and when."""
    seed = common.ensemble_seed(cfg.seed) + 50
    recipe = cfg.recipe(lr=cfg.linear_lr, batch_size=100, epochs=cfg.linear_epochs, seed=seed)
    spec = common.linear_network(train, depth=2)
    _, (history,) = common.histories(
        spec, cfg.linear_nets, train, recipe, test, label="Training linear networks"
    )
    return history


def _critical(cfg: CnnOrder, train: ImageData, test: ImageData, pca: PCA, scores: Tensor) -> dict[str, float]:
    """Accessibility against the critical component, also of networks on whitened images."""
    critical = critical_component(train, test, pca=pca)
    solved, component = critical.defined, critical.critical[critical.defined]
    window = 10 if int(solved.sum()) >= 200 else 2
    white = ZCAWhitening.fit(train, pca=pca)
    parts, nets = [white.transform(part) for part in (train, test)], max(1, cfg.nets // 2)
    recipe = cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
    _, (whitened,) = common.histories(
        cfg.spec(train), nets, parts[0], recipe, parts[1], label="Training on whitened images"
    )
    rows = {"": scores[solved], " when whitened": whitened.scores[solved]}
    return {
        **{
            SMOOTHED + how: common.smoothed_correlation(row, component, window=window)
            for how, row in rows.items()
        },
        **{POINTWISE + how: float(pearson(row, component.double())) for how, row in rows.items()},
    }


def _neighbours(cfg: CnnOrder, test: ImageData, net: Trained, scores: Tensor) -> Measured:
    """Accessibility against the share of neighbours of the same class, in pixels and in a network."""
    (pixels,) = discriminabilities(test.x, test.y, ks=[10])
    dealt = torch.randperm(len(test), generator=generator_from("dealt", cfg.seed))
    spec = cfg.spec(test)
    trained, untrained = (
        discriminability(penultimate_features(model, test.x), test.y, k=10)
        for model in (net.into(spec(net.seed)), spec(common.ensemble_seed(cfg.seed) + 999))
    )
    return {
        RAW: by([cfg.data], [float(pearson(scores, pixels))]),
        f"{RAW} dealt at random": float(pearson(scores, pixels[dealt])),
        PENULTIMATE: by([cfg.data], [float(pearson(scores, trained))]),
        f"{PENULTIMATE} before training": float(pearson(scores, untrained)),
    }


NEIGHBOURS = (10, 30)
BY_FREQUENCY, DEALT = "accessibility against frequency", "with frequencies dealt at random"


@study("spectral.fig8a", "spectral.fig8b", "spectral.fig13", "spectral.sec54.no_decline")
class FrequencyBias(Study):
    """Are points that need higher frequencies learned later?"""

    # Points and networks.
    n: int = 3000
    n_test: int = 1000
    units: int = 128
    nets: int = 2
    epochs: int = 60
    lr: float = 3e-3

    n_seeds = 10  # cheap, and the correlation lies close to its bound
    scales = {
        "smoke": dict(n=300, n_test=200, units=16, epochs=3),
        "night": dict(n=10_000, epochs=1000),  # at 60 epochs no frequency above 4 had reached one half
    }

    def run(self) -> Measured:
        """Train small networks of two hidden layers on the points, curve labels."""
        train = common.frequency_data(self.n, seed=self.seed)
        test = common.frequency_data(self.n_test, seed=self.seed, split="test")
        spec = ModelSpec(name="fcn", classes=2, shape=(2, 1, 1), options={"depth": 3, "units": self.units})
        recipe = Recipe(
            optimiser="adam",
            lr=self.lr,
            batch_size=64,
            epochs=self.epochs,
            seed=common.ensemble_seed(self.seed),
        )
        nets, (history,) = common.histories(
            spec, self.nets, train, recipe, test, label="Training on frequencies"
        )
        right = history.correct.double().mean(0)
        points = test.x.flatten(1)
        critical = common.critical_frequency(points)
        dealt = critical[torch.randperm(len(critical), generator=generator_from("dealt", self.seed))]
        present, rows, times = _by_frequency(right, critical)
        present_dealt, rows_dealt, times_dealt = _by_frequency(right, dealt)
        near = discriminabilities(points, test.y, ks=NEIGHBOURS)
        epochs = torch.arange(1, right.shape[0] + 1).double()
        frequencies = torch.tensor(present).double()
        so_far = [float(pearson(frequencies, row)) for row in (rows.cumsum(1) / epochs).T]
        return {
            BY_FREQUENCY: so_far[-1],
            f"strongest {BY_FREQUENCY}": min(so_far),
            f"{BY_FREQUENCY} {DEALT}": float(
                pearson(torch.tensor(present_dealt).double(), rows_dealt.mean(1))
            ),
            "neighbours against frequency": by(NEIGHBOURS, [float(pearson(row, critical)) for row in near]),
            f"neighbours against frequency {DEALT}": float(pearson(near[0], dealt)),
            "epochs to 50 %": by(present, times),
            "order of the epochs to 50 %": _order(frequencies, times),
            f"order of the epochs to 50 % {DEALT}": _order(torch.tensor(present_dealt).double(), times_dealt),
            "training accuracy": common.training_accuracy(nets),
        }


def _by_frequency(right: Tensor, critical: Tensor) -> tuple[list[int], Tensor, Tensor]:
    """Frequencies that occur, accuracy over epochs on the points of each, and the first epoch at 50 %."""
    present = [j for j in range(10) if int((critical == j).sum()) >= 5]
    rows = torch.stack([right[:, critical == j].mean(1) for j in present])
    above = rows >= 0.5
    never = right.shape[0] + 1.0
    return present, rows, torch.where(above.any(1), above.to(torch.uint8).argmax(1) + 1.0, never).double()


def _order(frequencies: Tensor, times: Tensor) -> float:
    """Spearman correlation; 0 if all times agree."""
    return 0.0 if bool((times == times[0]).all()) else float(spearman(frequencies, times))


@study("relu2.sec54.loc_peak")
class ReluOrderPeak(Study):
    """Is the learning order of two-layer ReLU networks most constant at the onset of overfitting?"""

    # Few noisy labels, so that there is something to overfit.
    data: str = "mnist:4/9"
    n: int = 300
    n_test: int = 1000
    halve: bool = True
    noise: float = 0.2  # share of wrong training labels
    units: int = 200
    nets: int = 2  # per ensemble
    steps: int = 2500
    lr: float = 0.5

    scales = {
        "smoke": dict(data="photos:coffee/flower", n=60, n_test=60, units=10, nets=1, steps=20, lr=0.05),
        "desk": dict(steps=5000, lr=0.1),  # a rate of 0.5 left one seed at 51 % of its training labels
        "night": dict(halve=False, nets=5, steps=5000),
    }

    def run(self) -> Measured:
        """Full-batch descent; test answers at times dense at the start of training."""
        clean, test = common.pair(self.data, self.n, self.n_test, seed=self.seed, halve=self.halve)
        flips = torch.rand(len(clean), generator=generator_from("flips", self.seed)) < self.noise
        noisy = clean.replace(y=torch.where(flips, 1 - clean.y, clean.y))
        steps = geometric_steps(self.steps, count=40)[1:]
        constancy, accuracy, training = _curves(self, noisy, test, steps)
        calm, _, _ = _curves(self, clean, test, steps)
        last = max(len(steps) - 1, 1)
        return {
            "peak of constancy": int(constancy.argmax()) / last,
            "peak of test accuracy": int(accuracy.argmax()) / last,
            "fall of constancy": float(constancy.max() - constancy[-1]),
            "fall of constancy with clean labels": float(calm.max() - calm[-1]),
            "fall of test accuracy": float(accuracy.max() - accuracy[-1]),
            "training accuracy": training,
        }


def _curves(
    cfg: ReluOrderPeak, data: ImageData, test: ImageData, steps: tuple[int, ...]
) -> tuple[Tensor, Tensor, float]:
    """Running constancy and test accuracy of two ensembles, and their training accuracy at the end."""

    def member(seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        model = build("two_layer_relu", classes=1, shape=data.shape, units=cfg.units, seed=seed)
        probes = [AccessibilityRecorder(part.x, part.y) for part in (test, data)]
        targets = 2.0 * data.y.float()[:, None] - 1
        recipe = Recipe(lr=cfg.lr, batch_size=None, steps=cfg.steps, loss="mse", seed=seed)

        def look(step: int, model: nn.Module) -> None:
            for probe, wanted in zip(probes, (steps, steps[-1:]), strict=True):
                if step in wanted:
                    probe.record(model)

        train(model, data.x, targets, recipe, observers=[look], show=False)
        return probes[0].state_dict(), probes[1].state_dict()

    seeds = [common.ensemble_seed(cfg.seed) + i for i in range(2 * cfg.nets)]
    records = map_tasks(member, seeds, label="Training ReLU networks")
    tests = [on_test for on_test, _ in records]
    first, second = history_of(tests[: cfg.nets]), history_of(tests[cfg.nets :])
    accuracy = torch.cat([first.accuracy, second.accuracy]).mean(0)
    training = float(history_of([on_train for _, on_train in records]).accuracy[:, -1].mean())
    return common.running_constancy(first, second), accuracy, training
