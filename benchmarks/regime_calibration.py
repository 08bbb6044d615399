"""How often `regime` and `richness` are right: networks that are lazy or rich by construction, and the thresholds.

A network is trained as f = alpha (g(w) - g(w0)) by gradient descent on the loss over alpha squared: large alpha makes
training lazy, small alpha rich. Thresholds come from one half of the networks, error rates from the other.

    python benchmarks/regime_calibration.py [--seeds 6] [--images 64] [--json calibration.json]
"""

import argparse
import copy
import itertools
import json
import sys
from pathlib import Path

import torch
from torch import nn

from firstlight._internal.seeds import global_seed
from firstlight.data import load
from firstlight.measures.layers.activations import activations
from firstlight.measures.linearized.richness import richness
from firstlight.questions.regime.measure import regime

RATES = {"lazy": {300.0: 0.03, 100.0: 0.03}, "rich": {0.3: 0.01, 0.1: 0.003}}  # learning rate of each alpha
STEPS = 400
FITTED = 0.01  # of the initial loss: training ends there
MARGIN = 0.05  # share of known networks that a threshold may leave on its wrong side
MEASURES = ("score", "richness")


def convolutional(width, classes):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(width * 16, 2 * width), nn.ReLU(), nn.Linear(2 * width, classes),
    )  # fmt: skip


def fully_connected(width, classes):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(768, 2 * width), nn.ReLU(), nn.Linear(2 * width, 2 * width), nn.ReLU(),
        nn.Linear(2 * width, classes),
    )  # fmt: skip


def smooth(width, classes):
    network = convolutional(width, classes)
    return nn.Sequential(*(nn.Tanh() if isinstance(part, nn.ReLU) else part for part in network))


NETWORKS = {"convolutional": convolutional, "fully connected": fully_connected, "tanh": smooth}


def trained(initial, x, targets, alpha, lr):
    model = copy.deepcopy(initial)
    offset = initial(x).detach()
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    first = float(targets.square().sum(1).mean())
    for _ in range(STEPS):
        loss = (alpha * (model(x) - offset) - targets).square().sum(1).mean()
        if loss.item() < FITTED * first:
            break
        optimiser.zero_grad()
        (loss / alpha**2).backward()
        optimiser.step()
    return model, loss.item() / first


def measured(kind, alpha, lr, seed, images):
    few = load("photos", n=images, seed=seed)
    few = few.map(lambda x: nn.functional.avg_pool2d(x, 2) * 2 - 1)
    targets = nn.functional.one_hot(few.y, few.n_classes).float()
    with global_seed(kind, seed):
        initial = NETWORKS[kind](16, few.n_classes)
    model, left = trained(initial, few.x, targets - targets.mean(0), alpha, lr)
    # scale and offset of the outputs cancel in both parts of the score
    result = regime(model, few.x, initial=initial, n_kernel=24, n_fit=0, seed=seed, show=False)
    kept, before = activations(model, few.x), activations(initial, few.x)
    rich = richness(list(kept.values())[-2], kept["outputs"] - before["outputs"])
    return {
        "network": kind, "alpha": alpha, "seed": seed, "loss left": left, "score": result.score, "null": result.null,
        "null high": result.null_range.high, "kind": result.kind, "richness": rich.value,
        "richness null": float(rich.null.mean()),
    }  # fmt: skip


def thresholds(rows, name):
    """Above the first at most a few lazy networks lie, below the second at most a few rich ones."""
    lazy, rich = (torch.tensor([row[name] for row in rows if row["truth"] == truth]) for truth in RATES)
    return float(lazy.quantile(1 - MARGIN)), float(rich.quantile(MARGIN))


def error_rates(rows, name, lazy_below, rich_above):
    """How often known networks are called by the wrong name, and how often by none."""
    lazy, rich = ([row[name] for row in rows if row["truth"] == truth] for truth in RATES)
    between = [v for v in (*lazy, *rich) if lazy_below <= v <= rich_above]
    return {
        "lazy called rich": sum(v > rich_above for v in lazy) / len(lazy),
        "rich called lazy": sum(v < lazy_below for v in rich) / len(rich),
        "called neither": len(between) / len(rows),
        "networks": len(rows),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    rows = []
    for truth, rates in RATES.items():
        for (alpha, lr), kind, seed in itertools.product(rates.items(), NETWORKS, range(options.seeds)):
            rows.append({**measured(kind, alpha, lr, seed, options.images), "truth": truth})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    chosen, judged = ([row for row in rows if row["seed"] % 2 == part] for part in (0, 1))
    summary = {}
    for name in MEASURES:
        bounds = thresholds(chosen, name)
        ranges = {t: [f(r[name] for r in rows if r["truth"] == t) for f in (min, max)] for t in RATES}
        summary[name] = {"thresholds": bounds, **error_rates(judged, name, *sorted(bounds)), "ranges": ranges}
    summary["score with 0.1 and 0.5"] = error_rates(rows, "score", 0.1, 0.5)
    if options.json:
        text = json.dumps({"rows": rows, "summary": summary}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
