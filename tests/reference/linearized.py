"""Jacobians, tangent kernels and linear models by their definitions: one output of one image at a time."""

import copy

import torch


def jacobian_by_name(model, images):
    """Derivatives of every output of every image: name -> (n, outputs, *shape of the weight)."""
    model = copy.deepcopy(model).eval()
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    rows = {name: [] for name in weights}
    for image in images:
        outputs = model(image[None]).reshape(-1)
        for value in outputs:
            found = torch.autograd.grad(value, list(weights.values()), retain_graph=True, allow_unused=True)
            for (name, p), gradient in zip(weights.items(), found, strict=True):
                rows[name].append(torch.zeros_like(p) if gradient is None else gradient.clone())
    return {name: torch.stack(r).reshape(len(images), -1, *weights[name].shape) for name, r in rows.items()}


def jacobian(model, images):
    """All rows, images outer and outputs inner, over all weights side by side."""
    parts = jacobian_by_name(model, images)
    return torch.cat([part.flatten(0, 1).flatten(1) for part in parts.values()], 1)


def linear_outputs(model, images, displacement):
    """f(w0, x) + J u, summed weight by weight."""
    quiet = copy.deepcopy(model).eval()
    outputs = torch.stack([quiet(image[None])[0].detach() for image in images])
    for name, part in jacobian_by_name(model, images).items():
        outputs = outputs + (part * displacement[name]).flatten(2).sum(2).reshape(outputs.shape)
    return outputs
