"""
Would my architecture copy or memorise?
=======================================

Train a network to reproduce one single image and look at what it does to all others. A shallow
convolutional network learns to copy; one with a bottleneck draws the image it was trained on.
"""

# %%
# One photograph: grey, small, standardised. Any image will do.

import torch
from torch import nn

from firstlight import copy_or_memorise, data
from firstlight.pages.figures import Curve, curves
from firstlight.questions.copy_or_memorise.images import resized
from firstlight.questions.copy_or_memorise.task import IdentityTask, run_identity_task
from firstlight.training import Recipe

photos = data.load("photos", split="train", n=8, seed=0).x.mean(1, keepdim=True)
image = resized(photos[:1], 12)
image = (image - image.mean()) / image.std()

# %%
# Two architectures of our own: a few convolutions, and an autoencoder with a narrow middle.


def convolutions(seed: int) -> nn.Module:
    """Three convolutions that keep the image size."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )


def autoencoder(seed: int) -> nn.Module:
    """Everything must pass through four numbers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(144, 32),
        nn.ReLU(),
        nn.Linear(32, 4),
        nn.ReLU(),
        nn.Linear(4, 32),
        nn.ReLU(),
        nn.Linear(32, 144),
        nn.Unflatten(1, (1, 12, 12)),
    )


# %%
# The answer comes with its null: how much the untrained network resembles the identity.

recipe = Recipe(optimiser="adam", lr=3e-3, loss="mse", batch_size=None, steps=1000, stop_below=1e-4)
for architecture in (convolutions, autoencoder):
    bias = copy_or_memorise(architecture, image, recipe=recipe, seeds=(0, 1))
    print(f"{architecture.__name__}: {bias.answer}")

# %%
# The families of the paper are ready made; every setting is part of the result.

run = run_identity_task(IdentityTask(dataset="photos", image_size=12, width=16, depth=3, steps=500))
print(run.settings.words, "->", run.measured.behaviour)
assert torch.isfinite(run.measured.response.identity).all()

# %%
# What comes out beside the input and beside the training image, for images more and more like the latter.
# Blue: cosine of output and input. Orange: of output and training image.

response = run.measured.response
curves(
    [
        Curve(name="output and input", values=response.identity[None]),
        Curve(name="output and training image", values=response.constant[None], role="random labels"),
    ],
    title="Copy or memorise?",
    alt="Two cosines by the cosine between input and training image",
    at=response.rhos.tolist(),
    x="cosine between input and training image",
    y="cosine",
)
