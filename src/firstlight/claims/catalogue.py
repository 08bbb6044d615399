"""The claims as data: what the papers state, what they report, what counts as reproduced."""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from firstlight._internal.errors import unknown_name

THEMES = ("first_layer", "learning_order", "feature_ansatz", "identity", "linearized", "since")
"""The themes of the five papers and that of later ones, which are folders of ``claims/`` and of ``measures/``."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One checkable statement; the fields are described at the top of claims.yaml."""

    id: str
    theme: str
    topic: str
    paper: str
    source: str
    exact: bool
    statement: str
    setup: dict[str, Any]
    reported: Any
    check: dict[str, Any]
    cost_paper_scale: str
    reduced: dict[str, Any]
    calibration: Any
    errata: tuple[str, ...]

    @property
    def reported_text(self) -> str:
        """What the paper reports, on one line."""
        if isinstance(self.reported, dict):
            return "; ".join(f"{name}: {value}" for name, value in self.reported.items())
        return str(self.reported)


@cache
def all_claims() -> dict[str, Claim]:
    """Every claim by its id, in the order of claims.yaml."""
    import yaml  # imported when needed: the command line starts without it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("firstlight.claims").joinpath("claims.yaml").read_text(encoding="utf-8")
    rows = yaml.load(text, Loader=loader)["claims"]
    return {row["id"]: Claim(**{**row, "errata": tuple(row["errata"])}) for row in rows}


def select(what: str) -> list[Claim]:
    """Claims named by an id, a theme, the beginning of ids ("linear.") or "all".

    Examples
    --------
    >>> len(select("all")) == len(all_claims()), [c.id for c in select("profile.invariance")]
    (True, ['profile.invariance'])
    """
    claims = list(all_claims().values())
    if what == "all":
        return claims
    matching = [c for c in claims if what in (c.id, c.theme)] or [c for c in claims if c.id.startswith(what)]
    if not matching:
        known = [*THEMES, *(c.id for c in claims), "all"]
        raise unknown_name("claim or theme", what, known, hint="`firstlight claims list` shows all of them.")
    return matching
