"""Which figures a result has: those of the pages, by name, for notebooks and papers."""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.result import Result
from firstlight.pages.figures.figure import Figure


class _Builder(NamedTuple):
    """A function of a page, found when it is asked for: a profile is drawn without importing kernel machines."""

    page: str
    function: str
    is_measured: Callable[[Any], bool] = lambda result: True

    def draw(self, result: Result) -> Figure:
        module = import_module(f"firstlight.questions.{self.page}")
        figure: Figure = getattr(module, self.function)(result)
        return figure


def _has_layers(ansatz: Any) -> bool:
    return any(not row.is_output for row in ansatz.rows)


# the first of each kind is the figure of those who name none
FIGURES: dict[str, dict[str, _Builder]] = {
    "Profile": {"profile": _Builder("inspect.page_first_layer", "profile_figure")},
    "Ansatz": {
        "correlation": _Builder("inspect.page_ansatz", "correlation_figure", _has_layers),
        "isotropy": _Builder("inspect.page_ansatz", "isotropy_figure", _has_layers),
    },
    "RegimeResult": {
        "score": _Builder("regime.page", "regime_figure"),
        "accuracy": _Builder("regime.page", "accuracy_figure", lambda r: math.isfinite(r.linear_accuracy)),
    },
    "OrderReport": {
        "predictors": _Builder("order.page", "predictors_figure", lambda r: bool(r.correlations)),
        "earliest": _Builder("order.page", "earliest_figure"),
        "latest": _Builder("order.page", "latest_figure"),
        "suspects": _Builder("order.page", "suspects_figure"),
    },
    "LearnedKernel": {
        "rounds": _Builder("kernel.page", "rounds_figure"),
        "eigenvectors": _Builder("kernel.page", "vectors_figure"),
    },
    "ThreeTheories": {"amplitudes": _Builder("kernel.page", "theories_figure")},
    "Comparison": {
        "ansatz": _Builder("compare.page", "ansatz_figure"),
        "profile": _Builder("compare.page", "profile_figure", lambda c: c.models[0].profile is not None),
        "dead": _Builder("compare.page", "dead_figure"),
        "movement": _Builder("compare.page", "movement_figure"),
        "regime": _Builder("compare.page", "regime_figure", lambda c: any(m.regime for m in c.models)),
    },
}


def figure_of(result: Result, what: str = "") -> Figure:
    """Draw a result as pages show it.

    Parameters
    ----------
    result : Result
        One of the kinds in `FIGURES`.
    what : str, default ''
        Which figure, by name; by default the first.
    """
    kind = type(result).__name__
    builders = FIGURES.get(kind)
    if builders is None:
        raise InvalidInput(
            f"{kind} has no figure; {', '.join(sorted(FIGURES))} have. `to_frame()` gives its numbers."
        )
    name = what or next(iter(builders))
    if name not in builders:
        raise unknown_name(f"figure of {kind}", name, builders)
    if not builders[name].is_measured(result):
        raise InvalidInput(f"What the figure {name!r} shows was not measured in this {kind}.")
    return builders[name].draw(result)
