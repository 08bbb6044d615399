"""A study: one experiment that judges one or more claims by rules written before its first run."""

import dataclasses
import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from firstlight.claims.catalogue import all_claims
from firstlight.core.registry import Registry

SCALES = ("smoke", "desk", "paper")
"""How large a study is run: in seconds for the tests, in minutes on two cores, as published."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How the result of a study becomes a verdict on one claim.

    Parameters
    ----------
    measured : callable
        The numbers to print, by name.
    reproduced : callable
        The rule `check.reproduced_if` of the claim.
    partly : callable, optional
        The rule `reduced.must_hold`, for claims that are not exact.
    spread : callable, optional
        Spread over seeds of those numbers, by the same names.
    null : callable, optional
        What the control that could explain the numbers away gives, by name.
    note : str, default ''
        Said beside the verdict; for instance that a rule was found wrong.
    """

    measured: Callable[[Any], dict[str, float]]
    reproduced: Callable[[Any], bool]
    partly: Callable[[Any], bool] | None = None
    spread: Callable[[Any], dict[str, float]] | None = None
    null: Callable[[Any], dict[str, float]] | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A registered study."""

    name: str
    theme: str
    question: str
    claims: tuple[str, ...]
    body: Any

    def config(self, scale: str, *, seed: int | None = None) -> Any:
        """Return the settings of a scale, with another seed if wanted."""
        cfg = self.body.scales[scale]
        return cfg if seed is None else dataclasses.replace(cfg, seed=seed)

    @property
    def code(self) -> str:
        """Hash of the file that defines the study: a changed study is a new study."""
        return hashlib.sha256(inspect.getsource(sys.modules[self.body.__module__]).encode()).hexdigest()[:16]


STUDIES: Registry[Study] = Registry("study")
"""All studies by name, ``theme/file``."""
ABSENT: dict[str, str] = {}
"""Claims that no study can serve here, with the reason."""

S = TypeVar("S", bound=type)


def study(*claim_ids: str) -> Callable[[S], S]:
    """Register a class as the study of these claims. Its name is that of its file.

    The class needs: a docstring that opens with the question; `Config`, a frozen dataclass with a
    `seed`; `scales`, a config for each of smoke, desk and paper; ``run(cfg) -> Result`` and
    ``figure(result) -> Figure``, static methods; `rules`, a :class:`Rule` for every claim.
    """

    def register(decorated: S) -> S:
        body: Any = decorated
        claims = all_claims()
        theme, name = body.__module__.split(".")[-2:]
        assert all(claims[id].theme == theme for id in claim_ids), f"{name}: a claim of another theme"
        assert set(body.rules) == set(claim_ids), f"{name}: rules and claims differ"
        assert set(body.scales) == set(SCALES), f"{name}: give a config for {SCALES}"
        for id, rule in body.rules.items():
            assert claims[id].exact or rule.partly is not None, f"{name}: {id} needs a rule `partly`"
        question = inspect.cleandoc(body.__doc__ or "").splitlines()[0]
        STUDIES.add(
            f"{theme}/{name}",
            Study(name=f"{theme}/{name}", theme=theme, question=question, claims=claim_ids, body=body),
        )
        return decorated

    return register


def absent(reason: str, *claim_ids: str) -> None:
    """Say why claims cannot be judged with what is obtainable without an account."""
    for id in claim_ids:
        assert id in all_claims().keys() - ABSENT.keys(), id
        ABSENT[id] = reason


def study_of(claim_id: str) -> Study | None:
    """Return the study that serves a claim, if there is one."""
    return next((STUDIES[name] for name in STUDIES if claim_id in STUDIES[name].claims), None)
