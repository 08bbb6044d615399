"""LeNet and its linearisation on digits, over widths; and logistic regression on pixels."""

import warnings
from dataclasses import dataclass, replace

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.linearized.common import (
    DESK,
    DESK_FEW,
    NIGHT,
    SMOKE,
    accuracy_curves,
    by_width,
    minus_published,
    pairs_by_width,
    readings,
)
from reproduce.studies.linearized.pairs import Plan
from reproduce.studies.linearized.tasks import Task, parts_of

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

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Pairs by width, one pair on few images for the exact solve, and logistic regression."""

        plan: Plan = DESK
        few: Plan = DESK_FEW  # at width 1
        widths: tuple[float, ...] = (0.25, 1, 4)
        all_digits: Task = ALL_DIGITS  # for logistic regression
        iterations: int = 100  # of L-BFGS
        seed: int = 0

    scales = {
        "smoke": Config(
            plan=SMOKE, few=replace(SMOKE, solve=True), widths=(0.25, 1),
            all_digits=replace(SMOKE.task, n=100), iterations=5,
        ),
        "desk": Config(),
        "night": Config(plan=NIGHT, widths=(0.25, 1)),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Pairs first, then the solve and logistic regression."""
        pairs = pairs_by_width("digits", cfg.plan, cfg.widths, seed=cfg.seed)
        (few,) = pairs_by_width("few digits", cfg.few, (1,), seed=cfg.seed)
        accuracies = readings(pairs, "digits")
        train, test = logistic(cfg.all_digits, seed=cfg.seed, iterations=cfg.iterations)
        same = logistic(cfg.plan.task, seed=cfg.seed, iterations=cfg.iterations)[1]
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

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Test accuracy against width."""
        return accuracy_curves(
            evidence,
            "digits",
            title="The linearised network catches up with width",
            lines={"logistic regression on the same digits": "null"},
        )
