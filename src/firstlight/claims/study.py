"""A study: one experiment, run once per seed, that judges one or more claims by rules written before its first run."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from firstlight._internal.errors import unknown_name
from firstlight._internal.registry import Registry
from firstlight.claims.catalogue import all_claims
from firstlight.claims.evidence import Evidence, Measured
from firstlight.claims.overview import overview
from firstlight.claims.rules import Rule
from firstlight.pages.figures.figure import Figure

SCALES = ("smoke", "desk", "night", "paper")
"""From seconds to the published setting."""

NIGHT_SEEDS = 3
"""Seeds of a study at night scale, unless it has fewer: a seed may take an hour."""


class Study:
    """Base of all studies.

    A subclass opens its docstring with the question, and declares a frozen dataclass `Config` with a
    `seed`, a config for each scale it can run at, `rules`, and :meth:`run`. Everything else is inherited.
    """

    Config: ClassVar[type]
    scales: ClassVar[dict[str, Any]]
    rules: ClassVar[Sequence[Rule]]
    n_seeds: ClassVar[int] = 5
    """Seeds that judge a claim at desk scale; exact studies need one."""

    name: ClassVar[str]
    theme: ClassVar[str]

    @classmethod
    def run(cls, cfg: Any) -> Measured:
        """Measure everything for the one seed ``cfg.seed``."""
        raise NotImplementedError

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the evidence: by default every number that the rules speak of, with its interval."""
        names = dict.fromkeys(n for rule in cls.rules for n in (*rule.names, *rule.null_names))
        nulls = {name for rule in cls.rules for name in rule.null_names}
        return overview(evidence, names, nulls=nulls, title=cls.question(), unit=cls.unit)

    unit: ClassVar[str] = ""
    """What the vertical axis of the inherited figure says."""

    @classmethod
    def question(cls) -> str:
        """The first line of the docstring."""
        return inspect.cleandoc(cls.__doc__ or "").splitlines()[0]

    @classmethod
    def claims(cls) -> tuple[str, ...]:
        """Identifiers of the claims it judges."""
        return tuple(rule.claim for rule in cls.rules)

    @classmethod
    def rule_of(cls, claim: str) -> Rule:
        """The rule of one claim."""
        return next(rule for rule in cls.rules if rule.claim == claim)

    @classmethod
    def config(cls, scale: str, *, seed: int | None = None) -> Any:
        """Settings of a scale, with another seed if wanted; night falls back on desk."""
        if scale not in SCALES:
            raise unknown_name("scale", scale, SCALES)
        cfg = cls.scales[scale if scale in cls.scales else "desk"]
        return cfg if seed is None else dataclasses.replace(cfg, seed=seed)

    @classmethod
    def seeds(cls, scale: str, *, first: int | None = None, count: int | None = None) -> tuple[int, ...]:
        """Seeds to run at a scale: one at smoke, three at night, `n_seeds` elsewhere, unless `count` says otherwise."""
        start = cls.config(scale).seed if first is None else first
        usual = {"smoke": 1, "night": min(NIGHT_SEEDS, cls.n_seeds)}
        wanted = count or usual.get(scale, cls.n_seeds)
        return tuple(range(start, start + wanted))

    @classmethod
    def departures(cls, scale: str) -> dict[str, tuple[Any, Any]]:
        """Settings in which a scale differs from the published ones, as (here, published)."""
        if "paper" not in cls.scales or scale not in SCALES:
            return {}
        here, published = (_flat(cls.config(name)) for name in (scale, "paper"))
        return {
            key: (here.get(key), published.get(key)) for key in published if here.get(key) != published[key]
        }


def _flat(cfg: Any, prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name; nested dataclasses are opened."""
    flat: dict[str, Any] = {}
    for setting in dataclasses.fields(cfg):
        item = getattr(cfg, setting.name)
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            flat |= _flat(item, f"{prefix}{setting.name}.")
        elif setting.name != "seed":
            flat[prefix + setting.name] = item
    return flat


STUDIES: Registry[type[Study]] = Registry("study")
"""Every study by the name of its theme and file."""

ABSENT: dict[str, str] = {}
"""Claims that no study can serve here, with the reason."""

S = TypeVar("S", bound=type[Study])


def study(cls: S) -> S:
    """Register a study under its theme and the name of its file, after checking that it is complete."""
    theme, name = cls.__module__.split(".")[-2:]
    cls.name, cls.theme = f"{theme}/{name}", theme
    known = all_claims()
    for claim in cls.claims():
        assert claim in known, f"{cls.name}: {claim} is not in claims.yaml"
        assert known[claim].theme == theme, f"{cls.name}: {claim} belongs to another theme"
    assert {"smoke", "desk"} <= set(cls.scales) <= set(SCALES), f"{cls.name}: give configs for smoke and desk"
    assert cls.question().endswith("?"), f"{cls.name}: the docstring must open with a question"
    if all(known[claim].exact for claim in cls.claims()):
        cls.n_seeds = 1 if "n_seeds" not in vars(cls) else cls.n_seeds
    STUDIES.add(cls.name, cls)
    return cls


def absent(reason: str, *claim_ids: str) -> None:
    """State why claims cannot be judged with what is obtainable without an account."""
    for id in claim_ids:
        assert id in all_claims().keys() - ABSENT.keys(), id
        ABSENT[id] = reason


def study_of(claim_id: str) -> type[Study] | None:
    """Return the study that judges a claim, if there is one."""
    return next((STUDIES[name] for name in STUDIES if claim_id in STUDIES[name].claims()), None)
