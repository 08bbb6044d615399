"""
Which training images made this prediction?
===========================================

The tangent kernel of a trained network says how far a step of training on one image moves the outputs on another. Here
it scores training images for each prediction, by itself and in the formula of TRAK, and the network is asked whether
they matter: unlearn the best by one step, and see how far the prediction falls, beside random images of the same class.
"""

# %%
# A trained network, a few of its training images, and predictions on images that it never saw
# ---------------------------------------------------------------------------------------------

import copy

import torch
from torch import nn
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
    probability = network(train.x).softmax(1).gather(1, train.y[:, None])[:, 0].double()

# %%
# The kernel of the margins
# -------------------------
# TRAK asks what moves the margin of a label, the log-odds of its probability. A module with the margin as its only
# output, and the label as one more channel of the image, gives :func:`firstlight.ntk_gram` the same question.


def margin(outputs, labels):
    """Log-odds of each label."""
    rest = outputs.scatter(1, labels[:, None], -torch.inf)
    return outputs.gather(1, labels[:, None])[:, 0] - rest.logsumexp(1)


class Margin(nn.Module):
    """The network with its margin as the only output."""

    def __init__(self):
        super().__init__()
        self.network = network

    def forward(self, images):
        """Take images with their labels."""
        return margin(self.network(images[:, :-1]), images[:, -1, 0, 0].long())[:, None]


images, labels = torch.cat([train.x, test.x]), torch.cat([train.y, predicted])
labelled = torch.cat([images, labels[:, None, None, None].expand_as(images[:, :1])], 1)
kernel = firstlight.ntk_gram(Margin(), labelled, show=False).double()

# %%
# Scores: its cosine, and the formula of TRAK without a projection
# ----------------------------------------------------------------
# TRAK projects the gradients F of the margins at random and scores a training image by
# :math:`Q\,(FF^\top + c)^{-1} F f`, where f is the gradient of the prediction and Q one minus the probability of the
# label. The products of gradients are the kernel, so that nothing needs to be projected. The tools ``traker`` and
# ``dattri`` take the features below in place of their projected gradients, and then give the same scores.

values, vectors = torch.linalg.eigh(kernel)
features = vectors * values.clamp(min=0).sqrt()
error = float((features @ features.T - kernel).norm() / kernel.norm())
print(f"{features.shape[0]} images as {features.shape[1]} features; relative error of the kernel {error:.0e}")
among, across = kernel[:N_TRAIN, :N_TRAIN], kernel[N_TRAIN:, :N_TRAIN]
ridge = 0.1 * among.diagonal().mean() * torch.eye(N_TRAIN, dtype=kernel.dtype)
scores = {
    "cosine of the kernel": across / among.diagonal().sqrt(),
    "TRAK by the kernel": torch.linalg.solve(among + ridge, across.T).T * (1 - probability),
    "pixels": -torch.cdist(
        test.x.flatten(1), train.x.flatten(1)
    ),  # a rival that knows nothing of the network
}

# %%
# Unlearn the best images of the predicted class, and as many random ones
# -----------------------------------------------------------------------
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
        before, after = (margin(model(image[None]), label[None]) for model in (network, changed))
    return float(before - after)


generator = torch.Generator().manual_seed(0)
falls = {name: [] for name in (*scores, "random")}
most = dict.fromkeys(scores, 0)
best = []  # training images by the cosine of the kernel
for row, (image, label) in enumerate(zip(test.x, predicted, strict=True)):
    members = (train.y == label).nonzero().flatten()
    draws = [members[torch.randperm(len(members), generator=generator)[:N_CHOSEN]] for _ in range(N_DRAWS)]
    null = [fallen(draw, image, label) for draw in draws]
    falls["random"].append(sum(null) / N_DRAWS)
    for name, by_name in scores.items():
        chosen = members[by_name[row, members].topk(N_CHOSEN).indices]
        falls[name].append(fallen(chosen, image, label))
        most[name] += falls[name][-1] > max(null)
        best += [chosen] if name == "cosine of the kernel" else []

# %%
# What the network says
# ---------------------
# A choice that does not matter falls most in one of ten cases, as there are nine random draws beside it. The step is
# short, which favours the plain kernel: TRAK asks what training without the image would have given.

for name, all_falls in falls.items():
    print(f"{name}: the margin of the prediction falls by {sum(all_falls) / N_TEST:.2f} on average")
for name, count in most.items():
    print(
        f"{name}: falls more than in all {N_DRAWS} random draws for {count} of {N_TEST} predictions; "
        f"{N_TEST / (N_DRAWS + 1):.1f} by chance"
    )

# %%
# The first predictions, each with its best training images
# ----------------------------------------------------------
# A row begins with the image whose prediction is explained; its training images have the largest cosines.

rows = []
for image, chosen in zip(test.x[:4], best, strict=False):
    rows += [image[None], train.x[chosen]]
shown = torch.cat(rows)
picture_grid(
    (shown - shown.min()) / (shown.max() - shown.min()),
    signed=False,
    columns=1 + N_CHOSEN,
    title="Which training images made this prediction?",
    alt="Four rows: a test image and the five training images with the largest cosines",
)
