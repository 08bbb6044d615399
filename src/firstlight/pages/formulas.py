"""The formulas behind the figures, by name: written once, shown as MathML on every page that refers to them."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from firstlight._internal.errors import unknown_name


@dataclass(frozen=True)
class Formula:
    """One formula in words and signs, as `templates/formulas.toml` has it.

    Parameters
    ----------
    title : str
        What it defines.
    latex : str
        The formula.
    words : str
        What its letters mean.
    source : str
        The paper that uses it.
    """

    title: str
    latex: str
    words: str
    source: str


@cache
def formulas() -> dict[str, Formula]:
    """All formulas by name."""
    text = resources.files("firstlight.pages").joinpath("templates/formulas.toml").read_text(encoding="utf-8")
    return {name: Formula(**entry) for name, entry in tomllib.loads(text).items()}


@dataclass(frozen=True)
class ShownFormula:
    """A formula as the page shows it."""

    name: str
    anchor: str
    formula: Formula
    mathml: str


def formulas_of(names: Iterable[str]) -> dict[str, ShownFormula]:
    """Formulas by name, each once, in the order of first use."""
    known, shown = formulas(), {}
    for name in dict.fromkeys(names):
        if name not in known:
            raise unknown_name("formula", name, known)
        anchor = "formula-" + name.replace(" ", "-")
        shown[name] = ShownFormula(name, anchor, known[name], mathml(known[name].latex))
    return shown


@cache
def mathml(latex: str) -> str:
    """Return MathML, which browsers draw without any script.

    Examples
    --------
    >>> mathml("e_i")[:5]
    '<math'
    """
    from latex2mathml.converter import convert  # imported when needed: 50 ms

    return str(convert(latex, display="block"))
