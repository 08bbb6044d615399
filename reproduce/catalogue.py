"""What the papers state, and the studies that measure it: claims.yaml and the classes in studies/."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import torch
from torch import Tensor

from firstlight._internal.errors import unknown_name
from firstlight._internal.registry import Registry
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from reproduce.evidence import Evidence, Measured
from reproduce.judge import Rule

THEMES = ("first_layer", "learning_order", "feature_ansatz", "identity", "linearized", "newer_papers")
"""The themes of the five papers and that of later ones, which are folders of ``studies/``."""

SCALES = ("smoke", "desk", "night")
"""Seconds, to see that a study runs; minutes a study on two cores; hours. None of them is the published setting."""

NIGHT_SEEDS = 3
"""Seeds of a study at night scale, unless it has fewer: a seed may take an hour."""

# ---------------------------------------------------------------- claims


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
    published: dict[str, Any] = field(default_factory=dict)
    reported: Any
    cost_paper_scale: str
    rule: Rule | None = None
    beside: tuple[str, ...] = ()
    no_null: str = ""
    note: str = ""
    change: str = ""
    absent: str = ""
    errata: tuple[str, ...] = ()

    @property
    def reported_text(self) -> str:
        """What the paper reports, on one line."""
        if isinstance(self.reported, dict):
            return "; ".join(f"{name}: {value}" for name, value in self.reported.items())
        return str(self.reported)


@cache
def claims() -> dict[str, Claim]:
    """Every claim by its id, in the order of claims.yaml."""
    import yaml  # imported when needed: the command line starts without it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8")
    return {row["id"]: _claim(row) for row in yaml.load(text, Loader=loader)["claims"]}


def _claim(entry: Mapping[str | None, Any]) -> Claim:
    """A claim from its entry; its rule is read at once, so that no damaged text waits for its study."""
    row = {
        "null" if key is None else key: value for key, value in entry.items()
    }  # YAML reads `null` as no value
    parts = {name: row.pop(name) for name in ("effect", "weaker", "null", "requires") if name in row}
    lists = {name: tuple(row.get(name, ())) for name in ("beside", "errata")}
    return Claim(**{**row, **lists, "rule": Rule(**parts) if parts else None})


def select(what: str) -> list[Claim]:
    """Claims named by an id, a theme, the beginning of ids ("linear.") or "all".

    Examples
    --------
    >>> len(select("all")) == len(claims()), [c.id for c in select("profile.invariance")]
    (True, ['profile.invariance'])
    """
    listed = list(claims().values())
    if what == "all":
        return listed
    matching = [c for c in listed if what in (c.id, c.theme)] or [c for c in listed if c.id.startswith(what)]
    if not matching:
        known = [*THEMES, *(c.id for c in listed), "all"]
        raise unknown_name("claim or theme", what, known, hint="`reproduce list` shows all of them.")
    return matching


# ---------------------------------------------------------------- studies


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Study:
    """One experiment, run once per seed. It measures and judges nothing.

    A subclass opens its docstring with the question, and declares its settings as the fields of a frozen dataclass,
    which it becomes by itself, what differs from them at a scale, and :meth:`run`. Everything else is inherited.

    Parameters
    ----------
    seed : int, default 0
        Of all that is random.
    """

    seed: int = 0

    scales: ClassVar[dict[str, dict[str, Any]]] = {}
    """Settings by scale that are not the defaults; smoke and desk can always be run, night only if it stands here."""

    n_seeds: ClassVar[int] = 5
    """Seeds that judge a claim at desk scale; exact studies need one."""

    drawn: ClassVar[Mapping[str, str] | str] = {}
    """What the figure draws, each with its role: a series over its points, an array, a number as a level line. Or how
    the names of an ordered family of arrays begin. Empty: every number that the rules name."""

    axes: ClassVar[tuple[str, str]]
    """What the axes of what is drawn say; points that are words, or an axis without one, stand side by side."""

    at: ClassVar[str] = ""
    """Array with the positions on the horizontal axis; by default the points of the first series."""

    log_axes: ClassVar[str] = ""
    """Which axes are logarithmic: "", "x", "y" or "xy"."""

    name: ClassVar[str]
    theme: ClassVar[str]
    claims: ClassVar[tuple[str, ...]]
    """Identifiers of the claims that its measurements judge."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def run(self) -> Measured:
        """Measure everything for the one seed ``self.seed``."""
        raise NotImplementedError

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the evidence."""
        return drawing(cls, evidence) if cls.drawn else overview(cls, evidence)

    @classmethod
    def has_own_figure(cls) -> bool:
        """Whether it draws more than what its rules name: such a figure is recorded, for a plate or a page."""
        return bool(cls.drawn) or cls.figure.__func__ is not Study.figure.__func__  # type: ignore[attr-defined]

    @property
    def settings(self) -> dict[str, Any]:
        """What names a run and is recorded: the fields, and what else decides the numbers."""
        return dataclasses.asdict(self)

    @classmethod
    def question(cls) -> str:
        """The first line of the docstring."""
        return inspect.cleandoc(cls.__doc__ or "").splitlines()[0]

    @classmethod
    def at_scale(cls, scale: str, **settings: Any) -> Self:
        """The study with the settings of a scale, and others if wanted; night falls back on desk."""
        if scale not in SCALES:
            raise unknown_name("scale", scale, SCALES)
        return cls(**{**cls.scales.get(scale, cls.scales.get("desk", {})), **settings})

    @classmethod
    def seeds(cls, scale: str, *, first: int | None = None, count: int | None = None) -> tuple[int, ...]:
        """Seeds to run at a scale: one at smoke, three at night, `n_seeds` at the desk, unless `count` is given."""
        start = cls.at_scale(scale).seed if first is None else first
        usual = {"smoke": 1, "night": min(NIGHT_SEEDS, cls.n_seeds)}
        return tuple(range(start, start + (count or usual.get(scale, cls.n_seeds))))


S = TypeVar("S", bound=type[Study])

_STUDIES: Registry[type[Study]] = Registry("study")


@cache
def studies() -> Registry[type[Study]]:
    """Every study by its theme and name. It registers itself when its file is imported: dropping one in is enough."""
    folder = importlib.import_module("reproduce.studies")
    for file in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(file.name)
    return _STUDIES


def study(*ids: str) -> Callable[[S], S]:
    """Register a study for the claims it measures, under its theme and the words of its class name."""

    def register(cls: S) -> S:
        cls.theme = cls.__module__.split(".")[-2]
        cls.name = f"{cls.theme}/{re.sub(r'(?<!^)(?=[A-Z])', '_', cls.__name__).lower()}"
        cls.claims = ids
        known = claims()
        for id in ids:
            assert id in known, f"{cls.name}: {id} is not in claims.yaml"
            assert known[id].theme == cls.theme, f"{cls.name}: {id} belongs to another theme"
        cls.scales = {"smoke": {}, "desk": {}} | cls.scales
        assert set(cls.scales) <= set(SCALES), f"{cls.name}: unknown scales {set(cls.scales) - set(SCALES)}"
        assert cls.question().endswith("?"), f"{cls.name}: the docstring must open with a question"
        if all(known[id].exact for id in ids) and "n_seeds" not in vars(cls):
            cls.n_seeds = 1
        _STUDIES.add(cls.name, cls)
        return cls

    return register


def study_of(claim_id: str) -> type[Study] | None:
    """Return the study that measures for a claim, if there is one."""
    listed = studies()
    return next((listed[name] for name in listed if claim_id in listed[name].claims), None)


# ---------------------------------------------------------------- the inherited figure


def drawing(study: type[Study], evidence: Evidence) -> Figure:
    """Draw what a study declares, with the range over seeds; what was not measured is left out."""
    if isinstance(study.drawn, str):
        names = [name for name in evidence.arrays if name.startswith(study.drawn)]
        looks: list[dict[str, Any]] = [{"shade": i / max(len(names) - 1, 1)} for i in range(len(names))]
    else:
        names = [name for name in study.drawn if name in evidence.arrays or name in evidence.values]
        looks = [{"role": study.drawn[name]} for name in names]
    lines = [name for name in names if evidence.points(name) or name in evidence.arrays]
    tables = {name: _rows_of(evidence, name) for name in lines}
    shared = min(table.shape[1] for table in tables.values())  # ranks differ by seed
    levels = {
        name: evidence.values[name][None][:, None].expand(-1, shared) for name in names if name not in lines
    }
    rows = [
        (name, {**tables, **levels}[name][:, :shared], look) for name, look in zip(names, looks, strict=True)
    ]
    (x, y), points = study.axes, evidence.points(lines[0])[:shared]
    alt = f"{y} against {x or 'name'}: {', '.join(names)}"
    said: dict[str, Any] = {"title": study.question(), "alt": alt, "y": y}
    if not x or any(isinstance(point, str) for point in points):
        series = [Dots.of(name, list(table.unbind(1)), **look) for name, table, look in rows]
        return dots([str(point) for point in points], series, **said)
    at = evidence.arrays[study.at][0][:shared].tolist() if study.at else [float(point) for point in points]
    log: dict[str, Any] = {f"log_{axis}": axis in study.log_axes for axis in "xy"}
    return curves(
        [Curve(name=n, values=table, **look) for n, table, look in rows], x=x, at=at or None, **log, **said
    )


def _rows_of(evidence: Evidence, name: str) -> Tensor:
    """A row for each seed, or for each network of all seeds."""
    if name in evidence.values:
        return evidence.table(name)
    arrays = evidence.arrays[name]
    rows = [row for array in arrays for row in (array if array.ndim > 1 else [array])]
    shared = min(len(row) for row in rows)
    return torch.stack([row[:shared] for row in rows])


def overview(study: type[Study], evidence: Evidence) -> Figure:
    """Draw every number that the rules name, with its range over seeds, those that only nulls name apart."""
    pairs = [rule.spoken_of(evidence) for id in study.claims if (rule := claims()[id].rule)]
    own = evidence.estimates(dict.fromkeys(name for names, _ in pairs for name in names))
    null = evidence.estimates(dict.fromkeys(name for _, names in pairs for name in names))
    null = {label: e for label, e in null.items() if label not in own}
    nothing = torch.tensor([float("nan")])
    series = [
        Dots.of(
            word,
            [torch.tensor(e.seeds) if n in part else nothing for n, e in {**own, **null}.items()],
            role=role,
        )
        for word, part, role in (("measured", own, "trained"), ("null", null, "null"))
        if part
    ]
    title = study.question()
    return dots([*own, *null], series, title=title, alt=f"{title} Measured numbers over seeds.", y="value")


# ---------------------------------------------------------------- departures

PUBLISHED_AS = {
    "dataset": "data",
    "n_images": "n",
    "lr": "rate",
    "model": "architecture",
    "batch_size": "batch",
    "initialiser": "initialisation",
    "kernel": "filter_size",
    "widths": "width",
    "depths": "depth",
    "rates": "rate",
    "decays": "weight_decay",
}
"""What `published` calls a setting that configs call otherwise."""

NOT_STATED = "not stated"
"""Said of a published setting that a run does not mention."""


SAID_OF_THE_PAPER = ("where", "remarks", "unclear", "paper", "authors", "year", "arxiv")
"""Keys of `published` that are no settings."""


def departures(claim: Claim, settings: Mapping[str, Any], *, n_seeds: int) -> dict[str, str]:
    """Say, for each published setting, what a run had instead; what it does not state is one too.

    Parameters
    ----------
    claim : Claim
        Whose `published` settings are compared.
    settings : mapping of str to object
        Those of the run, as its study declares them or as the ledger records them.
    n_seeds : int
        How many seeds ran.
    """
    told: dict[str, Any] = {}
    given = {name: value for name, value in flat(settings).items() if value is not None}
    # of `width` and `widths`, the list says what was varied
    for name, value in sorted(given.items(), key=lambda item: not isinstance(item[1], list)):
        own = name.rpartition(".")[2]
        told.setdefault(PUBLISHED_AS.get(own, own), value)
    told["seeds"] = n_seeds
    found = {}
    for key, value in claim.published.items():
        if key in SAID_OF_THE_PAPER or value in ("not given", "not read"):
            continue
        is_unclear = key in claim.published.get("unclear", ()) and isinstance(value, list)
        readings = [_said(reading) for reading in (value if is_unclear else [value])]
        here = _said(told[key]) if key in told else NOT_STATED
        if here not in readings:
            found[key] = f"{here} instead of {' or '.join(readings)}"
    return found


def departures_text(found: Mapping[str, str]) -> str:
    """Departures in words: what differs first, then the settings that the run does not state.

    Examples
    --------
    >>> departures_text({"n": "50 instead of 60000", "bias": "not stated instead of none"})
    'n 50 instead of 60000; not stated: bias'
    """
    silent = [name for name, words in found.items() if words.startswith(NOT_STATED)]
    differing = [f"{name} {words}" for name, words in found.items() if name not in silent]
    parts = [", ".join(differing), f"{NOT_STATED}: {', '.join(silent)}" if silent else ""]
    return "; ".join(filter(None, parts)) or "nothing"


def _said(value: Any) -> str:
    """A setting in words: tuples are lists, and a list of one is its item."""
    plain = json.loads(json.dumps(value, default=str))
    items = plain if isinstance(plain, list) else [plain]
    return ", ".join(f"{item:g}" if type(item) in (int, float) else str(item) for item in items)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name, tuples as the lists that a ledger holds; the seed is none."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        elif name != "seed":
            found[prefix + name] = list(value) if isinstance(value, tuple) else value
    return found
