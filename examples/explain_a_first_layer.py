"""
How much of a first layer needs labels?
=======================================

Gradient descent imprints the statistics of the patches on the first layer, with any labels. This
fits that closed form to a trained network and says what is left for the labels to explain.
"""

# %%
# A network that was trained on photographs
# -----------------------------------------

import firstlight
from firstlight.models import ModelSpec
from firstlight.pages.figures import Curve, curves
from firstlight.training import Recipe, train_once

images = firstlight.load("photos", split="train", n=400, seed=0)
spec = ModelSpec(name="small", classes=images.n_classes, shape=images.shape, options={"width": 0.5})
trained = train_once(spec, images, Recipe(optimiser="adam", lr=2e-3, epochs=4), show=False)
model = trained.into(spec(seed=0))  # your model

# %%
# The shares, and their null
# --------------------------
# The same fit with two free parameters on random filters says what fitting alone achieves.

explained = firstlight.explain_profile(model, images)
print(f"explained without labels: {explained.bias_share:.0%}")
print(f"the same fit on random filters: {explained.null_share:.0%}")
print(f"true labels add: {explained.label_share:.0%}")

# %%
# The curves
# ----------
# Blue: measured. Green: the closed form without labels. Grey: random filters, their mean and range.

curves(
    [
        Curve(name="measured", values=explained.profile.amplitude[None]),
        Curve(name="closed form without labels", values=explained.bias_curve[None], role="theory"),
        Curve(name="random filters", values=explained.profile.nulls, role="null"),
    ],
    title="Energy profile of the first layer",
    alt="Amplitude by patch component: measured, the closed form without labels, and random filters",
    x="patch component",
    y="amplitude",
)
