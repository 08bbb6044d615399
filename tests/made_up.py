"""Made-up evidence that brings a rule to every judgement it can give, found by random search."""

import ast
import random
import re
from contextlib import contextmanager
from itertools import chain, islice

import jaxtyping
import torch

from reproduce.evidence import Evidence
from reproduce.judge import Outcome, judge, missing, names_in, outcome

SEEDS = tuple(range(5))
TRIES = 20_000
SPREADS = (0.0, 1e-4, 0.02, 0.5)


def judgements(rule, points, wanted, *, seed=0):
    """Subset of `wanted` that random evidence reaches.

    Parameters
    ----------
    rule : Rule
        Decides which measurements are made up, and on which scale.
    points : dict of str to tuple
        Points of each series; a plain number has none.
    wanted : set of str
        Verdicts, and "not beyond" or "beyond" for the null.
    """
    reached = set()
    with types_unchecked():
        both = chain(draws(rule, points, seed=seed), draws(rule, points, seed=seed, alike=True))
        for made in both:
            judgement = judge(rule, made)
            reached |= {judgement.verdict, judgement.null_verdict} & wanted
            if reached == wanted:
                break
    return reached


def stricter(rule, points, *, seed=0, tries=1500):
    """Evidence for which the published rule holds and the weaker one fails, or None."""
    if not rule.weaker:
        return None
    with types_unchecked():
        for made in islice(draws(rule, points, seed=seed, only_published=True), tries):
            if outcome(rule.effect, made) is Outcome.HOLDS and outcome(rule.weaker, made) is Outcome.FAILS:
                return made
    return None


@contextmanager
def types_unchecked():
    """Leave out the checks of types: thousands of draws go the same way, and smoke runs go it with checks."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def draws(rule, points, *, seed, only_published=False, alike=False):
    """Evidence around the numbers that the rule names, at the points it names or at those that ran.

    Rules that ask whether several measurements are nearly equal hardly ever find it among independent ones: if they
    are to be `alike`, every second one is close to the one before.
    """
    drawn = random.Random(seed)
    names = sorted(set().union(*(names_in(text) for text in rule.words.values())))
    published = {name: named_points(rule, name) or list(points.get(name, ())) or [None] for name in names}
    ran = {name: list(points.get(name, ())) or [None] for name in names}
    text = " ".join(rule.words.values())
    levels = [float(number) for number in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", text)] + [
        0.0,
        0.5,
        1.0,
    ]
    for _ in range(TRIES):
        where = published if only_published or drawn.random() < 0.5 else ran
        yield _draw(names, where, levels, drawn, alike)


def named_points(rule, name):
    """Points that the rule itself names, in order."""
    empty = Evidence(seeds=SEEDS, values={})
    named = {
        ast.literal_eval(words.removeprefix(name).strip("[]"))
        for text in rule.words.values()
        if text
        for words in missing(text, empty)
        if words.startswith(f"{name}[") and words.strip("]").split("[")[1] not in ("first", "last")
    }
    return sorted(named, key=lambda point: (isinstance(point, str), point))


def _draw(names, where, levels, drawn, alike):
    spread, level = drawn.choice(SPREADS), None
    values = {}
    for name in names:
        if level is None or not alike or drawn.random() < 0.5:
            level = drawn.choice(levels) * drawn.choice((1.0, 1.0, 0.5, 2.0, -1.0))
        scale = max(abs(level), drawn.choice((1e-12, 1e-3, 1.0)))
        level += scale * drawn.choice((0.0, 0.02, -0.02, 0.1, -0.1, 0.4, -0.4))
        trend = scale * drawn.choice((0.0, 0.02, -0.02, 0.2, -0.2))
        jitter = scale * drawn.choice((0.0, 0.0, 0.3))
        middles = [level + trend * i + jitter * drawn.gauss(0, 1) for i in range(len(where[name]))]
        table = [[middle + spread * scale * drawn.gauss(0, 1) for _ in SEEDS] for middle in middles]
        rows = torch.tensor(table, dtype=torch.float64).unbind()
        values[name] = dict(zip(where[name], rows, strict=True))
    return Evidence(seeds=SEEDS, values=values)


def expected(rule):
    """Every judgement that a rule must be able to give."""
    wanted = {"reproduced", "not reproduced", "inconclusive"}
    if rule.weaker:
        wanted.add("partly")
    if rule.null:
        wanted |= {"beyond", "not beyond"}
    return wanted
