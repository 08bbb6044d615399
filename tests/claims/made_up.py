"""Made-up evidence that brings a rule to a wanted judgement, found by random search over what it speaks of."""

import itertools

import numpy as np
import torch

from firstlight.claims.evidence import Evidence
from firstlight.claims.rules import judge

SEEDS = tuple(range(5))
TRIES = 6000


def evidence_for(rule, points, wanted, *, exact=False, seed=0):
    """Evidence for which ``wanted(judgement)`` holds, or None if random search finds none.

    Parameters
    ----------
    rule : Rule
        Decides which measurements are made up.
    points : dict of str to tuple
        Points of each series; a plain number has none.
    wanted : callable
        From a judgement to whether it is the one.
    """
    random = np.random.default_rng(seed)
    names = sorted(set().union(*(condition.names for condition in rule.conditions)))
    for _ in range(TRIES):
        made = made_up(names, points, random)
        if wanted(judge(rule, made, exact=exact)):
            return made
    return None


def made_up(names, points, random):
    """Draw evidence: levels on several scales, trends over points, and a spread that is small, large or nothing."""
    values = {}
    scale = random.choice([1.0, 1.0, 1.0, 10.0, 100.0, 1e-3, 1e-9, 1e4])
    spread = random.choice([0.0, 1e-3, 0.3])
    for name in names:
        base = random.choice(
            [random.uniform(-1, 1), random.uniform(0.85, 1), random.uniform(0, 0.1), 0.0, 1.0]
        )
        level = base * (scale if random.random() < 0.7 else random.choice([1.0, 1e-12, 50.0, 1e3]))
        trend = random.choice([0.0, 0.0, 0.05, -0.05, 0.3, -0.3]) * max(abs(level), 1e-3)
        row = {}
        for index, point in enumerate(points.get(name) or (None,)):
            centre = level + trend * index
            if random.random() < 0.15:
                centre += random.uniform(-1, 1)
            noise = random.normal(size=len(SEEDS)) * spread * max(abs(centre), 1e-6)
            row[point] = torch.tensor(centre + noise, dtype=torch.float64)
        values[name] = row
    return Evidence(seeds=SEEDS, values=values)


def with_points(rule, evidence_points):
    """Points of every series a rule needs: those that ran, and those it names itself."""
    empty = Evidence(seeds=SEEDS, values={})
    named = {}
    for condition, text in itertools.product(rule.conditions, [""]):
        for missing in condition.missing(empty):
            name, _, point = missing.rpartition(" at ")
            if name:
                named.setdefault(name, []).append(_typed(point))
    return {
        name: tuple(dict.fromkeys([*evidence_points.get(name, ()), *named.get(name, ())]))
        for name in {*evidence_points, *named}
    }


def _typed(point):
    for kind in (int, float):
        try:
            return kind(point)
        except ValueError:
            continue
    return point
