"""A network and its linearisation, trained from one start on the same minibatches; the exact solve beside them."""

import dataclasses
import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.linearized.solved import solved
from firstlight.claims.linearized.tasks import Part, Task, parts_of
from firstlight.core.errors import Diverged
from firstlight.core.parallel import cpu_seconds, map_tasks
from firstlight.core.result import Result
from firstlight.models import ModelSpec, linearize, parameter_count
from firstlight.store import RunSpec, Store
from firstlight.training import Recipe, predictions, train

LOSS = "mse_sum"  # summed over outputs, mean over the batch, as in the gradient formula (E-85)
MOMENTUM = 0.9
BLOWN_UP = 1e3  # loss; targets are 0 and 1, so that guessing nothing costs 1

Build = Callable[[int], nn.Module]
Setting = tuple[float, float]  # rate and weight decay


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides one pair of twins."""

    task: Task = field(default_factory=Task)
    model: str = "lenet"
    width: float = 1.0
    epochs: int = 8
    search_epochs: int = 2  # of each trial of the search
    batch_size: int = 32
    rates: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003)
    decays: tuple[float, ...] = (5e-5, 5e-4)  # all but the first are tried at the best rate only
    milestones: tuple[float, ...] = ()  # shares of the training after which the rate is divided by 10
    seeds: int = 2
    solve: bool = False  # solve the linear model exactly as well
    double: bool = False  # float64 throughout
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Twins(Result):
    """Accuracies of one pair of twins, one row per seed, train and test in the columns.

    Parameters
    ----------
    network, linear : Tensor of shape (seeds, 2)
        After training by SGD.
    exact, ridge : Tensor of shape (seeds, 2)
        Of the linear model solved exactly, with the smallest norm and with the ridge that is best on the
        validation images; NaN where not asked for.
    network_setting, linear_setting : Setting
        Rate and decay that the validation images chose.
    diverged : tuple of 2 float
        Share of the trials of the search that diverged, network and linearisation.
    parameters, rows : int
        Numbers of weights and of equations (training images times outputs).
    majority : float
        Test accuracy of always naming the most frequent class.
    seconds : float
        CPU time.
    """

    width: float
    network: Float[Tensor, "seeds 2"]
    linear: Float[Tensor, "seeds 2"]
    exact: Float[Tensor, "seeds 2"]
    ridge: Float[Tensor, "seeds 2"]
    network_setting: Setting
    linear_setting: Setting
    diverged: tuple[float, float]
    parameters: int
    rows: int
    majority: float
    seconds: float

    @property
    def gap(self) -> Float[Tensor, " seeds"]:
        """Test accuracy of the network minus that of the linearisation trained by SGD."""
        return self.network[:, 1] - self.linear[:, 1]

    @property
    def exact_gap(self) -> Float[Tensor, " seeds"]:
        """Test accuracy of the network minus that of the linear model solved exactly, best ridge."""
        return self.network[:, 1] - self.ridge[:, 1]


def run_twins(plans: Sequence[Plan], *, label: str) -> list[Twins]:
    """Train the twins of all plans, each taken from the store if it is there."""
    return map_tasks(_stored, list(plans), label=label)


def varied(base: Plan, widths: Sequence[float], **of_task: object) -> list[Plan]:
    """One plan per width, with other settings of the task."""
    task = dataclasses.replace(base.task, **of_task)  # type: ignore[arg-type]
    return [dataclasses.replace(base, task=task, width=float(w)) for w in widths]


def twins(plan: Plan) -> Twins:
    """Search rate and decay with the first seed, then train both models with every seed."""
    start = cpu_seconds()
    parts = parts_of(plan.task, seed=plan.seed)
    outputs = parts[0].targets.shape[1]
    spec = ModelSpec(name=plan.model, classes=outputs, shape=parts[0].shape, options={"width": plan.width})
    network = _Kind(spec, plan)
    linear = _Kind(lambda seed: linearize(spec(seed)), plan)
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in ("net", "lin", "exact", "ridge")}
    for kind in (network, linear):
        kind.search(parts)
    for seed in range(plan.seed, plan.seed + plan.seeds):
        parts = parts_of(plan.task, seed=seed)
        rows["net"].append(network.scores(parts, seed))
        rows["lin"].append(linear.scores(parts, seed))
        exact = solved(spec(seed), *parts) if plan.solve else None
        rows["exact"].append(exact.least_norm if exact else (math.nan, math.nan))
        rows["ridge"].append(exact.ridge if exact else (math.nan, math.nan))
    table = {name: torch.tensor(found, dtype=torch.float64) for name, found in rows.items()}
    return Twins(
        width=plan.width,
        network=table["net"],
        linear=table["lin"],
        exact=table["exact"],
        ridge=table["ridge"],
        network_setting=network.ranking[0],
        linear_setting=linear.ranking[0],
        diverged=(network.diverged, linear.diverged),
        parameters=parameter_count(spec(plan.seed)),
        rows=plan.task.n * outputs,
        majority=parts[2].majority,
        seconds=cpu_seconds() - start,
    )


class _Kind:
    """One of the two models: how it is built, and which settings suit it."""

    def __init__(self, build: Build, plan: Plan) -> None:
        self.build, self.plan = build, plan
        self.ranking: list[Setting] = []
        self.diverged = 0.0

    def search(self, parts: Sequence[Part]) -> None:
        """Rank the settings by squared error on the validation images, with the first seed.

        All rates at the first decay, then the other decays at the best rate.
        """
        plan = self.plan
        tried: dict[Setting, float] = {}
        settings = [(rate, plan.decays[0]) for rate in plan.rates]
        if len(settings) > 1 or len(plan.decays) > 1:
            tried |= {s: self._validation_error(parts, s) for s in settings}
            best = min(tried, key=tried.__getitem__)[0]
            tried |= {
                (best, decay): self._validation_error(parts, (best, decay)) for decay in plan.decays[1:]
            }
            self.diverged = sum(math.isinf(e) for e in tried.values()) / len(tried)
        self.ranking = sorted(tried or settings, key=lambda s: tried.get(s, 0.0))

    def scores(self, parts: Sequence[Part], seed: int) -> tuple[float, float]:
        """Train and test accuracy with the best setting that does not diverge."""
        for rank, setting in enumerate(self.ranking):
            try:
                model = self._trained(parts[0], setting, seed, self.plan.epochs)
            except Diverged:
                if rank + 1 == len(self.ranking):
                    raise
                continue
            train, test = (
                part.accuracy(predictions(model, part.x.to(self._dtype))) for part in (parts[0], parts[2])
            )
            return train, test
        raise AssertionError("`ranking` is never empty")

    def _validation_error(self, parts: Sequence[Part], setting: Setting) -> float:
        try:
            model = self._trained(parts[0], setting, self.plan.seed, self.plan.search_epochs)
        except Diverged:
            return math.inf
        error = parts[1].error(predictions(model, parts[1].x.to(self._dtype)))
        return error if math.isfinite(error) else math.inf

    def _trained(self, part: Part, setting: Setting, seed: int, epochs: int) -> nn.Module:
        model = self.build(seed).to(self._dtype)
        recipe = Recipe(
            lr=setting[0],
            momentum=MOMENTUM,
            weight_decay=setting[1],
            loss=LOSS,
            batch_size=self.plan.batch_size,
            epochs=epochs,
            milestones=self.plan.milestones,
            seed=seed,
        )
        same = part.to(self._dtype)
        last = float(train(model, same.x, same.targets, recipe, show=False, fused=True).loss[-1])
        if last > BLOWN_UP:
            raise Diverged(f"The loss grew to {last:.3g} at the rate {setting[0]:g}. Lower the rates.")
        return model

    @property
    def _dtype(self) -> torch.dtype:
        return torch.float64 if self.plan.double else torch.float32


def _stored(plan: Plan) -> Twins:
    code = "".join(
        inspect.getsource(sys.modules[f"firstlight.claims.linearized.{name}"])
        for name in ("tasks", "twins", "solved")
    )
    spec = RunSpec(
        what="linearized twins",
        config=dataclasses.asdict(plan),
        code=hashlib.sha256(code.encode()).hexdigest()[:16],
    )
    found: Twins = Store().fetch_or_run(spec, lambda scratch: twins(plan)).result
    return found
