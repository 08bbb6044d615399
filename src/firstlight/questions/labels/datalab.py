"""Our scores of labels among the issues of cleanlab's Datalab."""

from functools import cache
from typing import Any

from firstlight._internal.errors import InvalidInput
from firstlight.questions.labels.result import LabelCheck

NAME = "firstlight_label"


def add_to_datalab(check: LabelCheck, lab: Any) -> None:
    """Add the suspicion of every label to a Datalab, beside what cleanlab found.

    `lab.get_issues("firstlight_label")` then has two columns, and `lab.report()` lists them: whether networks that did
    not train on the image give it another class (none does if they did not learn), and 1 - suspicion, since low is bad
    in all scores of cleanlab. In the other direction, cleanlab's `pred_probs` are what
    :func:`firstlight.questions.labels.probabilities.check_probabilities` takes.

    Parameters
    ----------
    check : LabelCheck
        Of the same images, in the same order.
    lab : cleanlab.Datalab
        It is changed.
    """
    try:
        _register()
    except ImportError as error:
        raise InvalidInput(
            f"`lab` must be a Datalab, and cleanlab cannot be imported here ({error}). Run: "
            "pip install 'cleanlab[datalab]'"
        ) from error
    if len(lab.data) != len(check.labels):
        raise InvalidInput(
            f"`lab` must hold the {len(check.labels)} images of the check, in their order; it holds {len(lab.data)}."
        )
    lab.find_issues(issue_types={NAME: {"check": check}})


@cache
def _register() -> None:
    """Tell cleanlab of an issue of ours, once; its base class is there only where cleanlab is."""
    from cleanlab.datalab.internal.issue_manager import IssueManager
    from cleanlab.datalab.internal.issue_manager_factory import register
    from pandas import DataFrame

    class FirstlightLabels(IssueManager):  # type: ignore[misc] # cleanlab has no types
        description = (
            "Labels that networks which did not train on the image doubt, or that were learned late."
        )
        issue_name = NAME

        def find_issues(self, *, check: LabelCheck, **kwargs: Any) -> None:
            flagged = (check.likely >= 0) & (check.likely != check.labels) & check.learned
            scores = 1 - check.suspicion
            self.issues = DataFrame(
                {f"is_{NAME}_issue": flagged.numpy(), self.issue_score_key: scores.numpy()}
            )
            self.summary = self.make_summary(score=float(scores.mean()))

    register(FirstlightLabels)
