"""
Is my number normal?
====================

A number says little until one knows what others have. Here every number of an inspection stands beside its range over
healthy networks, in layers of the same kind and relative depth. The ranges come with the package.
"""

# %%
# One network, before and after its training
# ------------------------------------------
# It is one of those behind the ranges. So all networks of its architecture are left out of them first; of your own
# network, ``judged(inspection)`` is enough, and the page of ``firstlight inspect`` has a section on it.

from dataclasses import replace

import torch

import firstlight
from firstlight.pages.figures import Dots, dots
from firstlight.questions.inspect.page_reference import judged

bank = firstlight.load_network("small-cifar10-0")
images = firstlight.load("cifar10", "test", n=1000, seed=0).scaled(**bank.scaling)

judgements = {}
for name, model in (("trained", bank.model), ("untrained", bank.initial)):
    judgement = judged(firstlight.inspect(model, images, n_images=64, show=False))
    others = judgement.reference.without(lambda network: network.family == "small")
    judgements[name] = replace(judgement, reference=others)

# %%
# What may be said at once
# ------------------------
# Only numbers that have earned it speak here: with an architecture held out they flag no healthy network, and more than
# half of the networks with some fault.

for name, judgement in judgements.items():
    print(f"{name}: {judgement.sentence()}")

# %%
# Every number of the first layer that has a range
# ------------------------------------------------
# ``firstlight networks ranges`` prints the ranges themselves. Numbers that have not earned their place lie outside in
# healthy networks, too; the class variation of the first layer is that of the pixels, so it only says that other images
# were drawn.

shown = {
    name: {
        reading.number: reading
        for reading in judgement.readings
        if reading.layer == "0" and reading.range is not None
    }
    for name, judgement in judgements.items()
}
for name, readings in shown.items():
    print(name)
    for reading in readings.values():
        low, high = reading.range.low, reading.range.high
        mark = "  <- outside" if reading.side else ""
        print(f"  {reading.number:16} {reading.value:5.2f}   {low:.2f} to {high:.2f}{mark}")

# %%
# What training did to the first layer
# ------------------------------------
# Bars: the range of healthy networks. Points: this network after and before its training.

numbers = ["coarse", "fine", "like random"]
ranges = [shown["trained"][number].range for number in numbers]
dots(
    numbers,
    [
        Dots.of("healthy networks", [torch.tensor([one.low, one.high]) for one in ranges], role="null"),
        *(
            Dots.of(name, [torch.tensor([shown[name][number].value]) for number in numbers], role=role)
            for name, role in (("trained", "trained"), ("untrained", "initial"))
        ),
    ],
    title="Is that normal?",
    alt="Three numbers of the first layer of a trained and an untrained network, with the ranges of healthy ones",
    y="share of energy, or correlation",
)
