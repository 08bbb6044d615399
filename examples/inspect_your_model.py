"""
Inspect your model
==================

From a trained network to one page about it. Runs in seconds on the photographs that come with the
installation; replace the two marked lines by your own model and images.
"""

# %%
# A network and images
# --------------------
# Any ``torch.nn.Module`` will do, and any tensor ``n c h w`` scaled as the model expects it. Here a small
# network is trained on crops of photographs.

import tempfile
from pathlib import Path

import firstlight
from firstlight.models import ModelSpec
from firstlight.questions.inspect.page import inspection_page
from firstlight.training import Recipe, train_once

train = firstlight.load("photos", split="train", n=400)
test = firstlight.load("photos", split="test", n=64)

spec = ModelSpec(name="small", classes=train.n_classes, shape=train.shape, options={"width": 0.5})
trained = train_once(spec, train, Recipe(optimiser="adam", lr=2e-3, epochs=4), show=False)

model = trained.into(spec(seed=0))  # your model
images = test  # your images

# %%
# Everything at once
# ------------------
# Without ``initial`` a fresh initialisation serves for comparison. With it, distances are real movement.

inspection = firstlight.inspect(model, images, initial=spec(seed=0))
print(f"accuracy {inspection.accuracy:.0%}, chance {inspection.chance:.0%}")

# %%
# The feature ansatz, and what explains it away
# ---------------------------------------------
# For every layer: do its filters point where the outputs are sensitive? The last columns are the null:
# the same gradients, rotated at random. A correlation that does not rise above it shows nothing.

for row in inspection.ansatz.rows:
    null = f"{row.null_pearson.min():.2f} .. {row.null_pearson.max():.2f}" if len(row.null_pearson) else "-"
    print(f"{row.layer:>4}  {row.pair:<38} {row.pearson:6.2f}   null {null}")

# %%
# The same as a figure: points are the layers, grey bars what rotated gradients give.

inspection.ansatz.figure("correlation")

# %%
# One layer in detail
# -------------------
# The gradient outer product itself, its leading directions, and filters that do nothing.

gradients = firstlight.patch_gradients(model, images)["0"]
print("AGOP of the first layer:", tuple(gradients.agop.shape), "Q:", tuple(gradients.covariance.shape))
for fault in inspection.faults:
    print(f"layer {fault.name}: {len(fault.dead)} dead, {fault.n_superfluous} repeated of {fault.n_filters}")

# %%
# The page
# --------
# One HTML file with every figure and the numbers behind it; nothing is loaded from elsewhere.

path = firstlight.write_page(inspection_page(inspection), Path(tempfile.mkdtemp()) / "inspect.html")
print(f"wrote {path.name}, {path.stat().st_size / 1e6:.1f} MB")
