"""
Which training images made this prediction?
===========================================

The tangent kernel of a trained network says how far a step of training on one image moves the outputs on another. Here
it picks training images for each prediction, and the network itself is asked whether they matter: unlearn them by one
step, and see how far the prediction falls, beside images of the same class that were drawn at random.
"""

# %%
# A trained network, a few of its training images, and predictions on images that it never saw
# ---------------------------------------------------------------------------------------------

import copy

import torch
from torch.nn import functional as F

import firstlight
from firstlight.pages.figures import picture_grid

N_TRAIN, N_TEST, N_CHOSEN, N_DRAWS = 500, 24, 5, 9
bank = firstlight.load_network("small-cifar10-0")
network = bank.model.eval()
train = firstlight.load("cifar10", "train", n=N_TRAIN, seed=1).scaled(**bank.scaling)
test = firstlight.load("cifar10", "test", n=N_TEST, seed=1).scaled(**bank.scaling)
with torch.no_grad():
    predicted = network(test.x).argmax(1)

# %%
# The kernel, and the features behind it
# --------------------------------------
# Tools such as TRAK and dattri take a vector for each image, its gradient projected to few dimensions at random. The
# features below are such vectors, without the error of a projection: their inner products are the kernel itself.

kernel = firstlight.ntk_gram(network, torch.cat([train.x, test.x]), show=False).double()
values, vectors = torch.linalg.eigh(kernel)
features = vectors * values.clamp(min=0).sqrt()
error = float((features @ features.T - kernel).norm() / kernel.norm())
print(f"{features.shape[0]} images as {features.shape[1]} features; relative error of the kernel {error:.0e}")
cosines = F.normalize(features[N_TRAIN:]) @ F.normalize(features[:N_TRAIN]).T
pixels = -torch.cdist(test.x.flatten(1), train.x.flatten(1))  # a rival that knows nothing of the network

# %%
# Unlearn the chosen images, and as many random ones of the same class
# --------------------------------------------------------------------
# One step up the loss on those images, for all of the same length: half a percent of the weights.


def fallen(chosen, image, label):
    """How far the margin of the prediction falls when the chosen training images are unlearned."""
    changed = copy.deepcopy(network)
    weights = list(changed.parameters())
    slopes = torch.autograd.grad(F.cross_entropy(changed(train.x[chosen]), train.y[chosen]), weights)
    length = torch.cat([w.detach().flatten() for w in weights]).norm()
    steepness = torch.cat([slope.flatten() for slope in slopes]).norm()
    with torch.no_grad():
        for weight, slope in zip(weights, slopes, strict=True):
            weight += 0.005 * length / steepness * slope
        before, after = (margin(model(image[None])[0], label) for model in (network, changed))
    return before - after


def margin(outputs, label):
    """Predicted output less the largest other."""
    return float(outputs[label] - outputs[torch.arange(len(outputs)) != label].max())


generator = torch.Generator().manual_seed(0)
falls = {"tangent kernel": [], "pixels": [], "random": []}
most = {"tangent kernel": 0, "pixels": 0}
for image, label, by_kernel, by_pixels in zip(test.x, predicted.tolist(), cosines, pixels, strict=True):
    members = (train.y == label).nonzero().flatten()
    draws = [members[torch.randperm(len(members), generator=generator)[:N_CHOSEN]] for _ in range(N_DRAWS)]
    null = [fallen(draw, image, label) for draw in draws]
    falls["random"].append(sum(null) / N_DRAWS)
    for name, scores in (("tangent kernel", by_kernel), ("pixels", by_pixels)):
        falls[name].append(fallen(members[scores[members].topk(N_CHOSEN).indices], image, label))
        most[name] += falls[name][-1] > max(null)

# %%
# What the network says
# ---------------------
# A choice that does not matter falls most in one of ten cases, as there are nine random draws beside it.

for name, all_falls in falls.items():
    print(f"{name}: the margin of the prediction falls by {sum(all_falls) / N_TEST:.2f} on average")
for name, count in most.items():
    print(
        f"{name}: falls more than in all {N_DRAWS} random draws for {count} of {N_TEST} predictions; "
        f"{N_TEST / (N_DRAWS + 1):.1f} by chance"
    )

# %%
# The first predictions, each with what the kernel chose
# ------------------------------------------------------
# A row begins with the image whose prediction is explained.

rows = []
for image, label, scores in zip(test.x[:4], predicted[:4].tolist(), cosines, strict=False):
    members = (train.y == label).nonzero().flatten()
    rows += [image[None], train.x[members[scores[members].topk(N_CHOSEN).indices]]]
shown = torch.cat(rows)
picture_grid(
    (shown - shown.min()) / (shown.max() - shown.min()),
    signed=False,
    columns=1 + N_CHOSEN,
    title="Which training images made this prediction?",
    alt="Four rows: a test image and the five training images that the tangent kernel chose",
)
