"""
Is my training lazy?
====================

A lazy network fits its data by a model that is linear in the weights; its features stay what they were.
Keep a copy of your network before you train it, and ask.
"""

# %%
# A network before and after training
# -----------------------------------
# Replace these lines by your own network and images.

import copy

import firstlight
from firstlight.training import Recipe, train_on

train, test = (firstlight.load("photos", split=split, n=100) for split in ("train", "test"))
for width, rate in ((1, 0.05), (4, 0.002)):
    start = firstlight.build("lenet", classes=train.n_classes, shape=train.shape, width=width)
    model = copy.deepcopy(start)
    train_on(model, train, Recipe(lr=rate, momentum=0.9, epochs=6), show=False)
    found = firstlight.regime(model, train, initial=start, test=test, n_fit=80, show=False)
    print(f"width {width}: {found.sentence()}")
    print(f"  accuracy {found.accuracy:.0%}, of its exactly solved linearisation {found.linear_accuracy:.0%}")
    print(f"  {', '.join(f'{change.name} moved by {change.distance:.2f}' for change in found.changes)}")
