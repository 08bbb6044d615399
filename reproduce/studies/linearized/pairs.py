"""A network and its linearisation, trained from one initial network on the same minibatches; the exact solve too."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.errors import Diverged
from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight._internal.seeds import seed_from
from firstlight._internal.store.runs import RunSpec, Store
from firstlight.data import ImageData, load
from firstlight.data.interventions import ChannelNormalisation
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.models import LinearizedModel, ModelSpec, linearize, parameter_count
from firstlight.training import Recipe, predictions, train
from reproduce.studies.linearized.shifts import random_shifts
from reproduce.studies.linearized.tangent_features import TangentFeatures, tangent_features


@dataclass(frozen=True, kw_only=True)
class Task:
    """Which images, how many, and what is asked about them."""

    data: str = "mnist"
    n: int = 2000  # training images
    n_valid: int = 500  # choose rates, decays and ridges; never trained on
    n_test: int = 2000
    shift: int = 0  # largest random shift in pixels, drawn once per image (E-91)
    binary: bool = False  # class 0 against the rest: one output, targets 0 and 1, threshold 1/2 (E-88)
    side: int | None = None  # enlarge the images to this side


@dataclass(frozen=True, kw_only=True)
class Part(Result):
    """Images, what to answer, and the class of each."""

    x: Float[Tensor, "n c h w"]
    targets: Float[Tensor, "n k"]
    y: Tensor

    def accuracy(self, outputs: Float[Tensor, "n k"]) -> float:
        """Share of right answers: largest output, or one output against 1/2."""
        chosen = (outputs[:, 0] > 0.5).long() if outputs.shape[1] == 1 else outputs.argmax(1)
        return float((chosen == self.y).double().mean())

    def error(self, outputs: Float[Tensor, "n k"]) -> float:
        """Squared error, summed over the outputs, mean over the images."""
        return float((outputs.double() - self.targets.double()).square().sum(1).mean())

    def to(self, dtype: torch.dtype) -> "Part":
        """The same in another precision."""
        return Part(x=self.x.to(dtype), targets=self.targets.to(dtype), y=self.y)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, c, h, w = self.x.shape
        return c, h, w

    @property
    def majority(self) -> float:
        """Accuracy of always naming the most frequent class."""
        return int(self.y.bincount().max()) / len(self.y)


def parts_of(task: Task, *, seed: int) -> tuple[Part, Part, Part]:
    """Training, validation and test images; standardised by the training images, then shifted.

    The seed draws the images too, so that a spread over seeds says how far the numbers hold for other
    images. Classes are about equally frequent before they are joined to two.
    """
    drawn = load(task.data, split="train", n=task.n + task.n_valid, seed=seed)
    index = torch.arange(len(drawn))
    splits = [drawn.take(index[: task.n]), drawn.take(index[task.n :])]
    splits.append(load(task.data, split="test", n=task.n_test, seed=seed))
    scale = ChannelNormalisation.fit(splits[0])
    names = ("train", "valid", "test")
    train, valid, test = (
        _part(scale.transform(split), task, seed_from("shift", name, seed))
        for name, split in zip(names, splits, strict=True)
    )
    return train, valid, test


def _part(images: ImageData, task: Task, seed: int) -> Part:
    moved = random_shifts(images, task.shift, seed=seed) if task.shift else images
    x = moved.x if task.side is None else F.interpolate(moved.x, size=(task.side, task.side), mode="bilinear")
    if task.binary:
        is_first = (moved.y == 0).long()
        return Part(x=x, targets=is_first[:, None].to(x.dtype), y=is_first)
    return Part(x=x, targets=F.one_hot(moved.y, moved.n_classes).to(x.dtype), y=moved.y)


RIDGES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Relative to the largest eigenvalue of the kernel; 0 is the solution of smallest norm."""

Scores = tuple[float, float]
"""Accuracy on training and on test images."""


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Accuracies of the exact solution.

    Parameters
    ----------
    least_norm : Scores
        Without ridge.
    ridge : Scores
        With the ridge of smallest squared error on the validation images.
    """

    least_norm: Scores
    ridge: Scores


def solved(model: nn.Module, train: Part, valid: Part, test: Part) -> Solved:
    """Solve for all ridges after one decomposition, in float64, and score the least norm and the best."""
    problem = solve_linearized(model, train.x, train.targets, show=False)
    lines = {ridge: problem.solution(ridge=ridge * problem.fit.largest) for ridge in RIDGES}
    validation = valid.x.double()
    best = min(RIDGES, key=lambda ridge: valid.error(predictions(lines[ridge], validation)))

    def scores(ridge: float) -> Scores:
        train_score, test_score = (
            part.accuracy(predictions(lines[ridge], part.x.double())) for part in (train, test)
        )
        return train_score, test_score

    least_norm = scores(0.0)
    return Solved(least_norm=least_norm, ridge=scores(best) if best else least_norm)


LOSS = "mse_sum"  # summed over outputs, mean over the batch, as in the gradient formula (E-85)
MOMENTUM = 0.9
BLOWN_UP = 1e3  # loss; targets are 0 and 1, so that guessing nothing costs 1
KINDS = ("network", "linearised")

Setting = tuple[float, float]  # rate and weight decay


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides one pair: a network and its linearisation."""

    task: Task = field(default_factory=Task)
    model: str = "lenet"
    width: float = 1.0
    epochs: int = 8
    search_epochs: int = 2  # of each trial of the search
    search_seed: int = 0  # one search serves all seeds, as the paper's does
    batch_size: int = 32
    rates: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003)
    decays: tuple[float, ...] = (5e-5, 5e-4)  # all but the first are tried at the best rate only
    milestones: tuple[float, ...] = ()  # shares of the training after which the rate is divided by 10
    solve: bool = False  # solve the linear model exactly as well
    double: bool = False  # float64 throughout
    seed: int = 0

    @property
    def dtype(self) -> torch.dtype:
        """Of all numbers."""
        return torch.float64 if self.double else torch.float32

    def epochs_of(self, kind: str) -> int:
        """Epochs that one of the two models is trained for."""
        return self.epochs

    def searching(self) -> "Plan":
        """The plan of the search, which is the same for all seeds."""
        return dataclasses.replace(self, seed=self.search_seed, epochs=self.search_epochs, solve=False)


@dataclass(frozen=True, kw_only=True)
class LongPlan(Plan):
    """A pair on all images: the linearisation keeps its derivatives, and the network may train for fewer epochs.

    The linear model is trained by the same SGD on the same minibatches; only the products with J are formed from
    derivatives that were computed once, those by filters in half precision.
    """

    network_epochs: int = 20

    def epochs_of(self, kind: str) -> int:
        """Epochs that one of the two models is trained for."""
        return self.network_epochs if kind == "network" else self.epochs

    def searching(self) -> "LongPlan":
        """The plan of the search, which gives both models the same number of epochs."""
        return dataclasses.replace(
            self,
            seed=self.search_seed,
            epochs=self.search_epochs,
            network_epochs=self.search_epochs,
            solve=False,
        )


@dataclass(frozen=True, kw_only=True)
class Pair(Result):
    """Accuracies of one pair, on training and on test images.

    Parameters
    ----------
    network, linearised : Scores
        After training by SGD.
    solved, ridge : Scores or None
        Of the linear model solved exactly, with the smallest norm and with the ridge that is best on the
        validation images; None where not asked for.
    settings : dict of str to Setting
        Rate and decay that the validation images chose, by kind.
    parameters, equations : int
        Numbers of weights, and of training images times outputs.
    majority : float
        Test accuracy of always naming the most frequent class.
    """

    width: float
    network: Scores
    linearised: Scores
    solved: Scores | None
    ridge: Scores | None
    settings: dict[str, Setting]
    parameters: int
    equations: int
    majority: float

    @property
    def gap(self) -> float:
        """Test accuracy of the network minus that of the linearisation trained by SGD."""
        return self.network[1] - self.linearised[1]


def run_pairs(plans: Sequence[Plan], *, label: str) -> list[Pair]:
    """Train the pairs of all plans, each taken from the store if it is there."""
    return map_tasks(_stored, list(plans), label=label)


def pair(plan: Plan, scratch: Path | None = None) -> Pair:
    """Train both models with the settings that suit them, and solve the linear one if wanted.

    Checkpoints lie in `scratch`: a pair that was killed goes on where it was.
    """
    parts = parts_of(plan.task, seed=plan.seed)
    outputs = parts[0].targets.shape[1]
    rankings = {kind: ranking(plan, kind) for kind in KINDS}
    network, linearised = (scores(plan, kind, parts, rankings[kind], scratch) for kind in KINDS)
    model = initial_model(plan, "network", parts[0], plan.seed)
    solution = solved(model, *parts) if plan.solve else None
    return Pair(
        width=plan.width,
        network=network,
        linearised=linearised,
        solved=solution.least_norm if solution else None,
        ridge=solution.ridge if solution else None,
        settings={kind: ranked[0] for kind, ranked in rankings.items()},
        parameters=parameter_count(model),
        equations=plan.task.n * outputs,
        majority=parts[2].majority,
    )


def initial_model(plan: Plan, kind: str, part: Part, seed: int) -> nn.Module:
    """The network or its linearisation before training."""
    spec = ModelSpec(
        name=plan.model, classes=part.targets.shape[1], shape=part.shape, options={"width": plan.width}
    )
    return (linearize(spec(seed)) if kind == "linearised" else spec(seed)).to(plan.dtype)


def scores(
    plan: Plan, kind: str, parts: Sequence[Part], settings: Sequence[Setting], scratch: Path | None = None
) -> Scores:
    """Training and test accuracy with the first setting that does not diverge."""
    for rank, setting in enumerate(settings):
        try:
            model = trained(
                plan, kind, parts[0], setting, seed=plan.seed, epochs=plan.epochs_of(kind), scratch=scratch
            )
        except Diverged:
            if rank + 1 == len(settings):
                raise
            continue
        return (_accuracy(model, parts[0], plan), _accuracy(model, parts[2], plan))
    raise ValueError("`settings` must not be empty")


def trained(
    plan: Plan,
    kind: str,
    part: Part,
    setting: Setting,
    *,
    seed: int,
    epochs: int,
    scratch: Path | None = None,
) -> nn.Module:
    """One model after SGD; a loss that blew up raises."""
    model = initial_model(plan, kind, part, seed)
    recipe = Recipe(
        lr=setting[0],
        momentum=MOMENTUM,
        weight_decay=setting[1],
        loss=LOSS,
        batch_size=plan.batch_size,
        epochs=epochs,
        milestones=plan.milestones,
        seed=seed,
    )
    same = part.to(plan.dtype)
    checkpoint = scratch and scratch / f"{kind} {setting[0]:g} {setting[1]:g}.safetensors"
    if isinstance(plan, LongPlan) and isinstance(model, LinearizedModel):
        fixed = _derivatives(plan, same, seed)
        fixed.reset()
        numbers = torch.arange(len(same.x))[:, None]
        history = train(fixed, numbers, same.targets, recipe, checkpoint=checkpoint, show=False, fused=True)
        model.displace(fixed.weights())
    else:
        history = train(model, same.x, same.targets, recipe, checkpoint=checkpoint, show=False, fused=True)
    if (last := float(history.loss[-1])) > BLOWN_UP:
        raise Diverged(f"The loss grew to {last:.3g} at the rate {setting[0]:g}. Lower the rates.")
    return model


_last: list[tuple[Plan, TangentFeatures]] = []


def _derivatives(plan: Plan, part: Part, seed: int) -> TangentFeatures:
    """Derivatives of the initial network on all training images; the last are kept, for the next rate."""
    what = Plan(task=plan.task, model=plan.model, width=plan.width, double=plan.double, seed=seed)
    if not _last or _last[0][0] != what:
        _last.clear()  # gigabytes: free them before the next are made
        network = initial_model(plan, "network", part, seed).eval()
        _last.append((what, tangent_features(network, part.x, kept_as=torch.float16)))
    return _last[0][1]


# ---------------------------------------------------------------- search


def ranking(plan: Plan, kind: str) -> list[Setting]:
    """Settings by squared error on validation images, best first; searched once for all seeds."""
    if len(plan.rates) == len(plan.decays) == 1:
        return [(plan.rates[0], plan.decays[0])]
    same = plan.searching()
    kept: list[Setting] = _kept(f"search for {kind}", same, lambda scratch: search(same, kind))
    return kept


def search(plan: Plan, kind: str) -> list[Setting]:
    """Try all rates at the first decay, then the other decays at the best rate; diverged ones come last."""
    parts = parts_of(plan.task, seed=plan.seed)

    def error(setting: Setting) -> float:
        try:
            model = trained(plan, kind, parts[0], setting, seed=plan.seed, epochs=plan.epochs_of(kind))
        except Diverged:
            return math.inf
        squared = parts[1].error(predictions(model, parts[1].x.to(plan.dtype)))
        return squared if math.isfinite(squared) else math.inf

    errors = {(rate, plan.decays[0]): error((rate, plan.decays[0])) for rate in plan.rates}
    best = min(errors, key=errors.__getitem__)[0]
    errors |= {(best, decay): error((best, decay)) for decay in plan.decays[1:]}
    return sorted(errors, key=errors.__getitem__)


# ---------------------------------------------------------------- helpers


def _accuracy(model: nn.Module, part: Part, plan: Plan) -> float:
    return part.accuracy(predictions(model, part.x.to(plan.dtype)))


def _stored(plan: Plan) -> Pair:
    kept: Pair = _kept("pair", plan, lambda scratch: pair(plan, scratch))
    return kept


def _kept(what: str, plan: Plan, make: Callable[[Path], Any]) -> Any:
    """Fetch from the store, or make and keep."""
    spec = RunSpec(what=f"linearized {what}", config=dataclasses.asdict(plan))
    return Store().fetch_or_run(spec, make).result
