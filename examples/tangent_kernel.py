"""
Does the tangent kernel fit the labels?
=======================================

The tangent kernel says which images a network treats alike when it takes a step. Training turns it
towards the labels; how far is one number, and shuffled labels say what that number is worth.
"""

# %%
# A trained network, and what it was before
# -----------------------------------------
# ResNet-20 comes with the package, trained on CIFAR-10. The images are crops of eight photographs that it never saw.

import firstlight
from firstlight.measures.linearized.tangent_kernel_summary import label_alignment, ntk_change
from firstlight.pages.figures import heatmap

network = firstlight.load_network("resnet20-cifar10-0")
photos = firstlight.load("photos", split="test", n=32, seed=0).scaled(**network.scaling)
photos = photos.take(photos.y.argsort(stable=True))  # images of one photograph side by side

# %%
# Two kernels
# -----------
# ``outputs="trace"`` sums over the ten outputs: one row per image.

kernels = {
    name: firstlight.ntk_gram(model, photos, outputs="trace", show=False)
    for name, model in (("initial", network.initial), ("trained", network.model))
}
for name, kernel in kernels.items():
    fit = label_alignment(kernel, photos.y)
    print(f"{name}: alignment {fit.value:.2f}, shuffled labels {fit.null_mean:.2f} ± {fit.null_std:.2f}")
print(f"training rotated the kernel by {ntk_change(kernels['initial'], kernels['trained']).rotation:.2f}")

# %%
# The trained kernel as a picture
# -------------------------------
# Divided by the norms of the rows: 1 means that a step on one image moves the outputs of the other as much.

kernel = kernels["trained"]
cosines = kernel / kernel.diagonal().sqrt().outer(kernel.diagonal().sqrt())
names = [f"{photos.classes[label]} {i}" for i, label in enumerate(photos.y.tolist())]
heatmap(
    cosines,
    rows=names,
    columns=names,
    title="Tangent kernel",
    alt="Cosines of gradients, image by image",
)
