"""How hard well-known data sets are: the reference values of the page of the learning order.

    python benchmarks/hardness.py [--write]

Each value is of 2,000 training images, evenly over the classes. With label noise, a share of the labels is replaced by
one of the other classes at random. `--write` stores them with date and version in
`src/firstlight/questions/order/hardness.json`.
"""

import argparse
import dataclasses
import datetime
import json
from pathlib import Path

import torch

import firstlight
from firstlight import load
from firstlight.data import ImageData
from firstlight.questions.order import prediction
from firstlight.questions.order.prediction import hardness

FILE = Path(prediction.__file__).with_name("hardness.json")
SETS = ("mnist", "fashion_mnist", "cifar10")
NOISE = (0.1, 0.4)


def noisy(data: ImageData, share: float) -> ImageData:
    """The same images with a share of wrong labels."""
    generator = torch.Generator().manual_seed(0)
    wrong = torch.rand(len(data), generator=generator) < share
    other = (data.y + torch.randint(1, data.n_classes, (len(data),), generator=generator)) % data.n_classes
    return ImageData(data.x, torch.where(wrong, other, data.y), data.classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = []
    for name in SETS:
        data = load(name, split="train", n=20_000)
        found.append(dataclasses.replace(hardness(data), name=name))
        found += [
            dataclasses.replace(hardness(noisy(data, share)), name=f"{name}, {share:.0%} wrong labels")
            for share in NOISE
        ]
    rows = [
        {
            "name": one.name,
            "value": round(one.value.value, 3),
            "low": round(one.value.low, 3),
            "high": round(one.value.high, 3),
            "n_images": one.n_images,
            "n_classes": one.n_classes,
        }
        for one in found
    ]
    for row in rows:
        print(f"{row['name']:36}{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})")
    if given.write:
        made = {
            "made_by": "benchmarks/hardness.py",
            "version": firstlight.__version__,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "neighbours": prediction.NEIGHBOURS,
            "seed": 0,
        }
        FILE.write_text(json.dumps({**made, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
