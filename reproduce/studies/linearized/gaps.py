"""Studies of the gap between networks and their linearisation."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from firstlight._internal.devices import device_of
from firstlight._internal.executor import map_tasks
from firstlight.estimators import CNTKClassifier, ConvRFMClassifier
from firstlight.models import ModelSpec, linearize
from firstlight.training import Recipe, geometric_steps, train
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.linearized.common import (
    BINARY_WIDTHS,
    DESK,
    DESK_BINARY,
    DESK_CIFAR,
    DESK_FEW,
    DESK_HARD,
    NIGHT,
    NIGHT_BINARY,
    SHIFT,
    SMOKE,
    SMOKE_BINARY,
    WIDTH_AXES,
    accuracies,
    by_width,
    cifar_plan,
    common_widths,
    factor,
    minus_published,
    pairs_by_width,
    readings,
)
from reproduce.studies.linearized.pairs import LOSS, MOMENTUM, Pair, Plan, Task, parts_of, scores

PHOTOGRAPHS = Plan(
    task=Task(data="photos", n=1000, n_valid=300, n_test=1000, side=64),
    model="alexnet",
    epochs=10,
    search_epochs=3,
    rates=(0.3, 0.1, 0.03, 0.01),
    decays=(5e-6,),
)
GAP, EQUAL = "gap on photographs", "gap with equal settings"
CHANCE = "chance gap of equal models"


def chance_gap(accuracy: float, n_test: int) -> float:
    """Return two standard deviations of the gap that models of one accuracy show on so many test images.

    Examples
    --------
    >>> round(chance_gap(0.5, 200), 9)
    0.1
    """
    return 2 * math.sqrt(2 * accuracy * (1 - accuracy) / n_test)


def _linearised(plan: Plan) -> float:
    """Test accuracy of the linear model with the one setting of the plan."""
    parts = parts_of(plan.task, seed=plan.seed)
    return scores(plan, "linearised", parts, [(plan.rates[0], plan.decays[0])])[1]


@study("lin.fig5.alexnet_gap", "lin.fig5.equal_rate")
class AlexnetGap(Study):
    """Is the gap of AlexNet as large on natural images as that of LeNet on hard tasks?

    AlexNet with a fraction of its width, on photographs enlarged to the smallest side it takes. Rate and
    decay are chosen for each model, as the paper does in the end; and, as it does first, the linear model
    has those of the network.
    """

    # Pairs by width.
    plan: Plan = PHOTOGRAPHS
    widths: tuple[float, ...] = (0.125, 0.25)

    scales = {
        "smoke": dict(
            plan=replace(SMOKE, model="alexnet", task=replace(SMOKE.task, side=64)), widths=(0.03125, 0.0625)
        ),
        # 10 epochs left some networks at 60 % of their own images, and so did 30 with a rate from 3 epochs of search
        "desk": dict(plan=replace(PHOTOGRAPHS, epochs=30, search_epochs=10)),
    }

    def run(self) -> Measured:
        """Train the pairs, then the linear models with the settings of the networks."""
        pairs = pairs_by_width("photographs", self.plan, self.widths, seed=self.seed)
        same = [
            replace(self.plan, width=pair.width, seed=self.seed, rates=(rate,), decays=(decay,))
            for pair in pairs
            for rate, decay in [pair.settings["network"]]
        ]
        equal = map_tasks(_linearised, same, label="Linearised with equal settings")
        gaps = [pair.network[1] - accuracy for pair, accuracy in zip(pairs, equal, strict=True)]
        return {
            **readings(pairs, "photographs"),
            "linearised with equal settings": by_width(pairs, equal),
            EQUAL: by_width(pairs, gaps),
            "majority class": pairs[0].majority,
            # a half is the accuracy with the largest spread, so that the null is not too easy for good models
            CHANCE: chance_gap(0.5, self.plan.task.n_test),
        }


def kernel_lines(task: Task, *, seed: int, depth: int, size: int) -> tuple[float, float]:
    """Test accuracy of the fixed and of the learned kernel on the images of the pairs."""
    train, valid, test = parts_of(task, seed=seed)
    fixed = CNTKClassifier(depth=depth, size=size).fit(train.x, train.y.numpy())
    learned = ConvRFMClassifier(depth=depth, size=size, rounds=2)
    learned.fit(torch.cat([train.x, valid.x]), torch.cat([train.y, valid.y]).numpy())
    scores = [test.y.numpy() == machine.predict(test.x) for machine in (fixed, learned)]
    return float(scores[0].mean()), float(scores[1].mean())


@study("lin.fig4.crossover")
class Crossover(Study):
    """Does a wide linearised network beat a narrow network, and where do both end as width grows?

    The figure goes beyond the paper: widths until the gap closes, beside the convolutional tangent
    kernel (the limit of infinite width) and the ConvRFM (a kernel that learns features).
    """

    # Pairs on CIFAR-10 and on digits, trained for other studies too, and on few digits beside kernels.
    plan: Plan = DESK
    photographs: Plan = DESK_CIFAR
    few: Plan = DESK_FEW
    object_widths: tuple[float, ...] = (0.5, 1)
    digit_widths: tuple[float, ...] = (0.25, 4)
    few_widths: tuple[float, ...] = (0.5, 1, 2)
    depth: int = 3  # of the kernels
    size: int = 3

    drawn = accuracies("few digits", {"CNTK": "null", "ConvRFM": "initial"})
    axes, log_axes = WIDTH_AXES, "x"
    scales = {
        "smoke": dict(
            plan=SMOKE, photographs=SMOKE, few=replace(SMOKE, solve=True), object_widths=(0.5, 1),
            few_widths=(0.25, 1), digit_widths=(0.25, 1), depth=2,
        ),
    }  # fmt: skip

    def run(self) -> Measured:
        """Pairs on three sets of images, then the kernels."""
        objects = self.photographs
        few = pairs_by_width("few digits", self.few, self.few_widths, seed=self.seed)
        cntk, convrfm = kernel_lines(self.few.task, seed=self.seed, depth=self.depth, size=self.size)
        return {
            **readings(pairs_by_width("CIFAR-10", objects, self.object_widths, seed=self.seed), "CIFAR-10"),
            **readings(pairs_by_width("digits", self.plan, self.digit_widths, seed=self.seed), "digits"),
            **readings(few, "few digits"),
            "CNTK": cntk,
            "ConvRFM": convrfm,
        }


TASKS = ("digits", "shifted digits", "CIFAR-10")
SHIFTED = {1: 0.2765, 60: 0.0391}  # published gaps
OBJECTS = {1: 0.2022, 60: 0.1317}


@study("lin.fig3.shift_gap", "lin.fig4.cifar_gap", "lin.width_effect", "lin.difficulty")
class HarderTasks(Study):
    """Does the gap between a network and its linearisation grow with the difficulty of the task?

    On few images the linear model is also solved exactly: what then is left of the gap is not
    optimisation.
    """

    # Pairs of three tasks with all classes, and of two with two; some are trained for other studies too.
    plan: Plan = DESK
    hard: Plan = DESK_HARD
    few: Plan = DESK_FEW  # at width 1
    binary: Plan = DESK_BINARY
    photographs: Plan = DESK_CIFAR
    widths: tuple[float, ...] = (0.25, 1, 4)
    shifted_widths: tuple[float, ...] = (0.25, 1)
    object_widths: tuple[float, ...] = (0.5, 1)
    binary_widths: tuple[float, ...] = BINARY_WIDTHS

    scales = {
        "smoke": dict(
            plan=SMOKE, hard=SMOKE, few=replace(SMOKE, solve=True), binary=SMOKE_BINARY, photographs=SMOKE,
            widths=(0.25, 1), shifted_widths=(0.25, 1), object_widths=(0.5, 1), binary_widths=(0.17, 0.35),
        ),
        "night": dict(  # two classes, and few images, as at the desk
            plan=NIGHT, hard=NIGHT, photographs=cifar_plan(replace(NIGHT, network_epochs=20)), widths=(1,),
            shifted_widths=(1,), object_widths=(1,),
        ),
    }  # fmt: skip

    def run(self) -> Measured:
        """Every pair is kept, so that studies share them."""
        few_photographs = cifar_plan(self.few, self.photographs.task.data)
        sweeps = {
            "digits": (self.plan, self.widths, 0),
            "shifted digits": (self.hard, self.shifted_widths, SHIFT),
            "CIFAR-10": (self.photographs, self.object_widths, 0),
            "zero or not": (self.binary, self.binary_widths, 0),
            "shifted zero or not": (self.binary, self.binary_widths, SHIFT),
            "few digits": (self.few, (1,), 0),
            "few shifted digits": (self.few, (1,), SHIFT),
            "few of CIFAR-10": (few_photographs, (1,), 0),
        }
        measured: dict[str, Series] = {}
        for name, (plan, widths, shift) in sweeps.items():
            pairs = pairs_by_width(name, plan, widths, seed=self.seed, shift=shift)
            measured |= readings(pairs, name)
        for name in TASKS:
            few = name.replace("CIFAR-10", "of CIFAR-10")
            exact = common_widths(
                measured[f"network on few {few}"], measured[f"solved with ridge on few {few}"]
            )
            measured[f"exact gap on few {few}"] = exact
        gaps = {name: measured[f"gap on {name}"] for name in sweeps}
        return {
            **measured,
            "shifted gap minus the published": minus_published(gaps["shifted digits"], SHIFTED),
            "CIFAR-10 gap minus the published": minus_published(gaps["CIFAR-10"], OBJECTS),
            "extra gap by shifts": common_widths(gaps["shifted digits"], gaps["digits"]),
            "extra gap by shifts of zero or not": common_widths(
                gaps["shifted zero or not"], gaps["zero or not"]
            ),
        }


ALL_DIGITS = Task(n=59_000, n_valid=1000, n_test=10_000)
REPORTED = {1: 0.0467, 60: 0.0048}
LOGISTIC = "logistic regression minus the published"


def logistic(task: Task, *, seed: int, iterations: int) -> tuple[float, float]:
    """Train and test accuracy of multinomial logistic regression on standardised pixels."""
    train, _, test = parts_of(task, seed=seed)
    model = LogisticRegression(max_iter=iterations, tol=1e-3)
    with warnings.catch_warnings():  # stopping early is what `iterations` asks for
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.x.flatten(1).numpy(), train.y.numpy())
    scores = [float(model.score(p.x.flatten(1).numpy(), p.y.numpy())) for p in (train, test)]
    return scores[0], scores[1]


@study("lin.fig2.mnist_gap", "lin.fig2.logistic")
class MnistGap(Study):
    """How far does LeNet's linearisation stay behind LeNet on digits, and does width close the gap?

    Summed squared loss; rate and decay of each model and width are chosen on validation images.
    """

    # Pairs by width, one pair on few images for the exact solve, and logistic regression.
    plan: Plan = DESK
    few: Plan = DESK_FEW  # at width 1
    widths: tuple[float, ...] = (0.25, 1, 4)
    all_digits: Task = ALL_DIGITS  # for logistic regression
    iterations: int = 100  # of L-BFGS

    drawn = accuracies("digits", {"logistic regression on the same digits": "null"})
    axes, log_axes = WIDTH_AXES, "x"
    scales = {
        "smoke": dict(
            plan=SMOKE, few=replace(SMOKE, solve=True), widths=(0.25, 1),
            all_digits=replace(SMOKE.task, n=100), iterations=5,
        ),
        "night": dict(plan=NIGHT, widths=(0.25, 1)),
    }  # fmt: skip

    def run(self) -> Measured:
        """Pairs first, then the solve and logistic regression."""
        pairs = pairs_by_width("digits", self.plan, self.widths, seed=self.seed)
        (few,) = pairs_by_width("few digits", self.few, (1,), seed=self.seed)
        accuracies = readings(pairs, "digits")
        train, test = logistic(self.all_digits, seed=self.seed, iterations=self.iterations)
        same = logistic(self.plan.task, seed=self.seed, iterations=self.iterations)[1]
        assert few.ridge is not None
        return {
            **accuracies,
            "gap minus the published": minus_published(accuracies["gap on digits"], REPORTED),
            "network on few digits": few.network[1],
            "exact solution on few digits": few.ridge[1],
            "logistic regression on the same digits": same,
            "margin over logistic regression": by_width(pairs, [pair.linearised[1] - same for pair in pairs]),
            LOGISTIC: by(("training", "test"), [train - 0.93, test - 0.92]),
            "majority class": pairs[0].majority,
        }


DIGITS, ZERO_SHIFTED = "zero or not", "shifted zero or not"
TABLES = {  # test accuracy in per cent
    f"linearised on {DIGITS}": {1: 99.61, 2: 99.75, 5: 99.81, 10: 99.85, 25: 99.85, 60: 99.89},
    f"network on {DIGITS}": {1: 99.89, 2: 99.89, 5: 99.88, 10: 99.89, 25: 99.89, 60: 99.88},
    f"linearised on {ZERO_SHIFTED}": {1: 95.48, 2: 98.51, 5: 98.97, 10: 99.31, 25: 99.51, 60: 99.55},
    f"network on {ZERO_SHIFTED}": {1: 99.72, 2: 99.80, 5: 99.82, 10: 99.77, 25: 99.82, 60: 99.86},
}
RATIOS = {"p = n": 1.0, "p = 15 n": 15.0}  # weights per image


def _leads(pairs: Sequence[Pair], task: str) -> dict[str, float]:
    """Test accuracy of the solutions minus that of SGD, at the widths with about 1 and 15 weights per image."""
    leads = {}
    for words, ratio in RATIOS.items():
        near = min(pairs, key=lambda pair: abs(pair.parameters / pair.equations - ratio))
        assert near.solved is not None
        assert near.ridge is not None
        leads[f"solver minus SGD on {task} where {words}"] = near.solved[1] - near.linearised[1]
        leads[f"ridge minus SGD on {task} where {words}"] = near.ridge[1] - near.linearised[1]
    return leads


@study(
    "lin.table1.lin",
    "lin.table1.lenet",
    "lin.table1.solver",
    "lin.table2.lin",
    "lin.table2.lenet",
    "lin.table2.solver",
)
class Tables(Study):
    """Zero or not: how do network, linearisation and exact solve compare as width grows?

    The published rate, without search. The solver at the width with as many weights as images sits at
    the interpolation threshold (E-87); a ridge chosen on validation images shows what that costs.
    """

    # Pairs of both tasks, by width.
    plan: Plan = DESK_BINARY
    widths: tuple[float, ...] = BINARY_WIDTHS

    scales = {
        "smoke": dict(plan=SMOKE_BINARY, widths=(0.17, 0.35)),
        # x0.57 has as many weights as images; SGD 0.3, 0.5 and 1.2 CPU hours for a task, each solve 1: 10 a seed
        "night": dict(plan=NIGHT_BINARY, widths=(0.57, 1, 2)),
    }

    def run(self) -> Measured:
        """Train and solve."""
        measured: dict[str, float | Series] = {}
        for task, shift in ((DIGITS, 0), (ZERO_SHIFTED, SHIFT)):
            pairs = pairs_by_width(task, self.plan, self.widths, seed=self.seed, shift=shift)
            accuracies = readings(pairs, task)
            for name in (f"linearised on {task}", f"network on {task}"):
                published = {width: entry / 100 for width, entry in TABLES[name].items()}
                measured[f"{name} minus the table"] = minus_published(accuracies[name], published)
            measured |= accuracies
            measured |= _leads(pairs, task)
            measured[f"majority class on {task}"] = pairs[0].majority
            measured[f"weights per image on {task}"] = by_width(
                pairs, [pair.parameters / pair.equations for pair in pairs]
            )
        return measured


ZERO_OR_NOT = Task(n=300, n_valid=100, n_test=200, binary=True)
OTHER = 1000  # added to the seed of the second network
DISTANCE, MEANS, NETWORKS = "distance of outputs", "distance of mean outputs", "distance of two networks"


def _paths(width: float, *, cfg: "Trajectories", at: tuple[int, ...]) -> Tensor:
    """Outputs of the network, of its linearisation and of another network: 3 x steps x images."""
    part, _, test = parts_of(cfg.task, seed=cfg.seed)
    spec = ModelSpec(name="lenet", classes=1, shape=test.shape, options={"width": width})
    recipe = Recipe(
        lr=cfg.rate, momentum=MOMENTUM, loss=LOSS, batch_size=None, steps=cfg.steps, seed=cfg.seed
    )  # fmt: skip
    paths: list[list[Tensor]] = []

    def look(step: int, model: nn.Module) -> None:
        if step in at:
            paths[-1].append(model(test.x.to(device_of(model)))[:, 0].cpu().double())

    for model in (spec(cfg.seed), linearize(spec(cfg.seed)), spec(cfg.seed + OTHER)):
        paths.append([])
        train(model, part.x, part.targets, recipe, observers=[look], show=False, fused=True)
    return torch.stack([torch.stack(path) for path in paths])


@study("lin.figA2.trajectories")
class Trajectories(Study):
    """Do network and linearisation give more similar outputs all along their training when they are wide?

    Full-batch descent on zero against the rest. Two networks of different seeds are the null: they become
    alike too, since they learn the same answers.
    """

    # Pairs by width, at one rate, with outputs on unseen images along the way.
    task: Task = ZERO_OR_NOT
    widths: tuple[float, ...] = (0.25, 2)
    rate: float = 0.01
    steps: int = 100
    recorded: int = 20

    scales = {
        "smoke": dict(
            task=Task(data="photos", n=16, n_valid=8, n_test=8, binary=True), widths=(0.25, 1), steps=4, recorded=4
        ),
    }  # fmt: skip

    def run(self) -> Measured:
        """Train both models and another network; distances are means over images and recorded steps."""
        at = geometric_steps(self.steps, count=self.recorded)
        paths = torch.stack(
            map_tasks(partial(_paths, cfg=self, at=at), list(self.widths), label="Trajectories")
        )
        network, linear, other = paths.unbind(1)  # each widths x steps x images
        points = [factor(width) for width in self.widths]
        apart = (network - linear).abs().mean(2)
        return {
            DISTANCE: by(points, apart.mean(1)),
            MEANS: by(points, (network.mean(2) - linear.mean(2)).abs().mean(1)),
            NETWORKS: by(points, (network - other).abs().mean((1, 2))),
        }
