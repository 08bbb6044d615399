"""
Is my training lazy?
====================

A lazy network fits its data as a model that is linear in its weights would; its features stay what they were.
Keep a copy of your network before you train it, and compare.
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
    initial = firstlight.build("lenet", classes=train.n_classes, shape=train.shape, width=width)
    model = copy.deepcopy(initial)
    train_on(model, train, Recipe(lr=rate, momentum=0.9, epochs=6), show=False)
    regime = firstlight.regime(model, train, initial=initial, test=test, n_fit=80, show=False)
    print(f"width {width}: {regime.sentence()}")
    print(
        f"  accuracy {regime.accuracy:.0%}; its linearisation, solved exactly: {regime.linear_accuracy:.0%}"
    )
    print(f"  {', '.join(f'{change.name} moved by {change.distance:.2f}' for change in regime.changes)}")

# %%
# The wide network as a figure
# ----------------------------
# The score and its two parts; grey bars are eight random steps of the same length.

regime.figure()
