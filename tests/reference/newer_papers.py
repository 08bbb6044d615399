"""Measures of later papers by their definitions: full matrices, one image and one pair at a time."""

import torch

from reference.patch_gradients import cosine, from_patches, output_shape, patches_of, pearson


def output_covariance(model, name, images):
    """Q of one layer without groups: outer products of the gradients at its output, position by position."""
    model.eval()
    layer = dict(model.named_modules())[name]
    caught = []

    def forward(x):
        change = torch.zeros(output_shape(layer, x), dtype=x.dtype, requires_grad=True)
        caught.append(change)
        return from_patches(layer, patches_of(layer, x), output_shape(layer, x)) + change

    layer.forward = forward
    k = layer.weight.shape[0]
    total = torch.zeros(k, k, dtype=torch.float64)
    for image in images:
        caught.clear()
        for value in model(image[None]).reshape(-1):
            (gradient,) = torch.autograd.grad(value, caught, retain_graph=True)
            channels = -1 if isinstance(layer, torch.nn.Linear) else 1
            for position in gradient.movedim(channels, -1).reshape(-1, k):
                total += torch.outer(position, position)
    del layer.forward
    return total / len(images)


def centred_similarities(model, initial, name, images):
    """Pearson correlation and cosine of the change's feature matrix and gradient outer product."""
    late, early = (dict(m.named_modules())[name].weight.detach().flatten(1) for m in (model, initial))
    change = late - early
    agop = change.T @ output_covariance(model, name, images) @ change
    return pearson(change.T @ change, agop), cosine(change.T @ change, agop)


def best_power(features, agop, *, largest=4.0, step=0.01):
    """The power of a positive semidefinite matrix whose cosine with another is largest, on a grid."""
    values, vectors = torch.linalg.eigh(agop)
    best = (-1.0, 0.0)
    for index in range(int(largest / step) + 1):
        raised = torch.zeros_like(agop)
        for value, vector in zip(values, vectors.T, strict=True):
            if value > 1e-13 * values.max():
                raised += value ** (index * step) * torch.outer(vector, vector)
        best = max(best, (cosine(features, raised), index * step))
    return best[1], best[0]


def loss_gradient_matrix(model, name, images, labels, weight_decay):
    """-1/(n lambda) times the sum over images and positions of patch gradients of the loss times patches."""
    layer = dict(model.named_modules())[name]
    total = 0
    for image, label in zip(images, labels, strict=True):
        seen = []

        def forward(x, seen=seen):
            patches = patches_of(layer, x).detach().requires_grad_()
            seen.append(patches)
            return from_patches(layer, patches, output_shape(layer, x))

        layer.forward = forward
        loss = -torch.log_softmax(model(image[None]), 1)[0, label]
        (gradient,) = torch.autograd.grad(loss, seen)
        for position, patch in zip(gradient[0], seen[0].detach()[0], strict=True):
            total = total + torch.stack([torch.outer(g, x) for g, x in zip(position, patch, strict=True)])
        del layer.forward
    return -total / (len(images) * weight_decay)


def class_ratio(features, labels):
    """Trace of the covariance within classes over that between them, one image at a time."""
    rows = [row.flatten() for row in features]
    mean = sum(rows) / len(rows)
    within = between = 0.0
    for label in set(labels.tolist()):
        members = [row for row, own in zip(rows, labels.tolist(), strict=True) if own == label]
        centre = sum(members) / len(members)
        within += sum(float((row - centre).square().sum()) for row in members)
        between += len(members) * float((centre - mean).square().sum())
    return within / between


def feature_alignment(features, outputs):
    """Cosine of the doubly centred kernel of the features and the projection onto the centred outputs."""
    n = len(features)
    centring = torch.eye(n, dtype=torch.float64) - 1 / n
    kernel = centring @ (features @ features.T) @ centring
    centred = centring @ outputs
    projection = centred @ torch.linalg.pinv(centred)
    return cosine(kernel, projection)


def noisy_copies(images, labels, noise):
    """Class means plus deviations weighted by given noise, one image at a time; `noise` by label, or one for all."""
    rows = images.flatten(1)
    mean = {c: rows[labels == c].mean(0) for c in labels.tolist()}
    copies = []
    for index, label in enumerate(labels.tolist()):
        key = label if label in noise else None
        members = [j for j, other in enumerate(labels.tolist()) if key is None or other == label]
        copy = mean[label].clone()
        for weight, j in zip(noise[key][members.index(index)], members, strict=True):
            copy += weight * (rows[j] - mean[labels[j].item()]) / len(members) ** 0.5
        copies.append(copy)
    return torch.stack(copies).reshape(images.shape)


def span_share(filters, basis):
    """Share of the squared entries of filters that their least-squares fit by the given ones explains."""
    matrix = torch.stack([b.flatten() for b in basis], 1)
    explained = total = 0.0
    for bank in filters:
        for channel in bank:
            row = channel.flatten()
            fit = matrix @ torch.linalg.lstsq(matrix, row[:, None]).solution[:, 0]
            explained += float(fit.square().sum())
            total += float(row.square().sum())
    return explained / total


def rank_correlation(a, b):
    """Pearson correlation of ranks, where equal values share the mean of theirs; by counting."""
    ranks = []
    for values in (a.tolist(), b.tolist()):
        ranks.append([sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values])
    return pearson(*(torch.tensor(r, dtype=torch.float64) for r in ranks))
