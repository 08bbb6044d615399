"""Measures of later papers by their definitions: full matrices, one image and one pair at a time."""

import torch

from reference.patch_agop import cosine, from_patches, output_shape, patches_of, pearson


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
