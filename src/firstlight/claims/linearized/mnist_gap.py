"""LeNet and its linearisation on digits, over widths; and logistic regression on pixels."""

import warnings
from dataclasses import dataclass, replace

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from firstlight.claims.conditions import all_of, within
from firstlight.claims.evidence import Evidence, Measured, by
from firstlight.claims.linearized.common import (
    DESK,
    DESK_FEW,
    NIGHT,
    PAPER,
    PUBLISHED_WIDTHS,
    SMOKE,
    accuracy_curves,
    by_width,
    minus_published,
    pairs_by_width,
    readings,
)
from firstlight.claims.linearized.pairs import Plan
from firstlight.claims.linearized.tasks import Task, parts_of
from firstlight.claims.quantities import at_end, lowest, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import Study, study
from firstlight.pages.figures.figure import Figure

ALL_DIGITS = Task(n=59_000, n_valid=1000, n_test=10_000)
REPORTED = {1: 0.0467, 60: 0.0048}
LOGISTIC = "logistic regression minus the published"
MARGIN = value("margin over logistic regression", at=1)
NARROWS = all_of(
    at_end("gap on digits", end="first") > at_end("gap on digits", end="last"),
    at_end("gap on digits", end="last") > -0.01,
)


def logistic(task: Task, *, seed: int, iterations: int) -> tuple[float, float]:
    """Train and test accuracy of multinomial logistic regression on standardised pixels."""
    train, _, test = parts_of(task, seed=seed)
    model = LogisticRegression(max_iter=iterations, tol=1e-3)
    with warnings.catch_warnings():  # stopping early is what `iterations` asks for
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.x.flatten(1).numpy(), train.y.numpy())
    scores = [float(model.score(p.x.flatten(1).numpy(), p.y.numpy())) for p in (train, test)]
    return scores[0], scores[1]


@study
class GapOnDigits(Study):
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
        "paper": Config(plan=PAPER, widths=PUBLISHED_WIDTHS),
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

    rules = (
        Rule(
            claim="lin.fig2.mnist_gap",
            requires=lowest("training accuracy of the network on digits") > 0.9,
            effect=all_of(
                within(value("gap minus the published", at=1), 0, tolerance=0.01),
                value("gap minus the published", at=60) < 0.0052,
                NARROWS,
            ),
            reduced=NARROWS,
            null=value("network on few digits") > value("exact solution on few digits"),
            note="squared loss summed over outputs, mean over the batch; published gaps 0.0467 at x1 and 0.0048 at "
            "x60, so that the last bound says less than one point; the null asks whether a gap is left when the "
            "linear model is solved exactly",
            change=Change("the reduced rule compared x1/4 with x1 whatever the widest model was"),
        ),
        Rule(
            claim="lin.fig2.logistic",
            effect=all_of(
                within(value(LOGISTIC, at="training"), 0, tolerance=0.01),
                within(value(LOGISTIC, at="test"), 0.001, tolerance=0.006),
                MARGIN > 0,
                MARGIN < 0.04,
            ),
            reduced=within(MARGIN, 0, tolerance=0.06),
            null=value("linearised on digits", at=1) > value("majority class"),
            note="published: 0.93 and 0.92; the margin is that of the linearised model on the same images, and "
            "slightly better means less than four points",
            change=Change("the linearised model was not in the rule"),
        ),
    )
