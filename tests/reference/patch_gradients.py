"""Feature matrices and gradient outer products by their definitions: one patch, one output at a time."""

import copy

import torch
from torch import nn
from torch.nn import functional


def patches_of(layer, x):
    """Every patch that a two-dimensional convolution sees, as n, positions, groups, group patch."""
    if isinstance(layer, nn.Linear):
        return x.reshape(len(x), -1, 1, x.shape[-1])
    (kh, kw), (sh, sw), (dh, dw) = layer.kernel_size, layer.stride, layer.dilation
    if layer.padding == "same":
        total = [d * (k - 1) for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
        sides = [total[1] // 2, total[1] - total[1] // 2, total[0] // 2, total[0] - total[0] // 2]
    elif layer.padding == "valid":
        sides = [0, 0, 0, 0]
    else:
        sides = [layer.padding[1], layer.padding[1], layer.padding[0], layer.padding[0]]
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    x = functional.pad(x, sides, mode=mode)
    height, width = x.shape[2:]
    found = []
    for top in range(0, height - dh * (kh - 1), sh):
        for left in range(0, width - dw * (kw - 1), sw):
            window = x[:, :, top : top + dh * (kh - 1) + 1 : dh, left : left + dw * (kw - 1) + 1 : dw]
            found.append(window.reshape(len(x), layer.groups, -1))
    return torch.stack(found, 1)


def output_shape(layer, x):
    if isinstance(layer, nn.Linear):
        return (*x.shape[:-1], layer.out_features)
    with torch.no_grad():
        return nn.Conv2d.forward(layer, x).shape


def from_patches(layer, patches, shape):
    """The layer's output, as a function of independent patches."""
    groups = patches.shape[2]
    weight = layer.weight.reshape(groups, layer.weight.shape[0] // groups, -1)
    values = torch.einsum("npgd,gkd->ngkp", patches, weight).flatten(1, 2)
    if layer.bias is not None:
        values = values + layer.bias[:, None]
    if isinstance(layer, nn.Linear):
        return values.transpose(1, 2).reshape(shape)
    return values.reshape(shape)


def agop(model, name, images, pick=lambda result: result):
    """Mean over images of the outer products of all patch gradients, one matrix per group."""
    model = copy.deepcopy(model).eval()
    layer = dict(model.named_modules())[name]
    leaves = []

    def forward(x):
        patches = patches_of(layer, x)
        # a change of the patches, so that a second use of the layer still depends on the first
        change = torch.zeros_like(patches).requires_grad_()
        leaves.append(change)
        return from_patches(layer, patches + change, output_shape(layer, x))

    layer.forward = forward
    groups = getattr(layer, "groups", 1)
    size = layer.weight[0].numel()
    total = torch.zeros(groups, size, size, dtype=torch.float64)
    for image in images:
        leaves.clear()
        outputs = pick(model(image[None])).reshape(-1)
        for value in outputs:
            gradients = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
            for gradient in gradients:
                if gradient is not None:
                    for position in gradient[0].double():
                        total += torch.einsum("ga,gb->gab", position, position)
    return total / len(images)


def feature_matrix(layer):
    groups = getattr(layer, "groups", 1)
    rows = layer.weight.detach().double().reshape(groups, layer.weight.shape[0] // groups, -1)
    return torch.stack([sum(torch.outer(row, row) for row in group) for group in rows])


def cosine(a, b):
    return float((a * b).sum() / (a.norm() * b.norm()))


def pearson(a, b):
    return cosine(a - a.mean(), b - b.mean())


def _pair(value):
    return tuple(value) if isinstance(value, tuple | list) else (value, value)


def _windows(x, weight, stride, padding, dilation, groups):
    """Every patch that a call of `conv2d` sees, as n, positions, groups, group patch."""
    (kh, kw), (sh, sw), (dh, dw) = weight.shape[2:], _pair(stride), _pair(dilation)
    if padding == "same":
        down, along = dh * (kh - 1), dw * (kw - 1)
        sides = [along // 2, along - along // 2, down // 2, down - down // 2]
    else:
        rows, columns = (0, 0) if padding == "valid" else _pair(padding)
        sides = [columns, columns, rows, rows]
    x = functional.pad(x, sides)
    tops = range(0, x.shape[2] - dh * (kh - 1), sh)
    lefts = range(0, x.shape[3] - dw * (kw - 1), sw)
    windows = [
        x[:, :, t : t + dh * (kh - 1) + 1 : dh, a : a + dw * (kw - 1) + 1 : dw].reshape(len(x), groups, -1)
        for t in tops
        for a in lefts
    ]
    return torch.stack(windows, 1), (len(tops), len(lefts))


class Calls:
    """Stands in for PyTorch's own functions; remembers the weight and a change of the patches of each call."""

    def __init__(self):
        self.weights, self.leaves = [], []

    def _output(self, patches, weight, bias):
        change = torch.zeros_like(patches).requires_grad_()
        self.weights.append(weight.detach().clone())
        self.leaves.append(change)
        groups = patches.shape[2]
        rows = weight.reshape(groups, len(weight) // groups, -1)
        values = torch.einsum("npgd,gkd->npgk", patches + change, rows).flatten(2)
        return values if bias is None else values + bias

    def conv2d(self, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        patches, sides = _windows(input, weight, stride, padding, dilation, groups)
        return self._output(patches, weight, bias).transpose(1, 2).reshape(len(input), len(weight), *sides)

    def linear(self, input, weight, bias=None):
        values = self._output(input.reshape(len(input), -1, 1, input.shape[-1]), weight, bias)
        return values.reshape(*input.shape[:-1], len(weight))


def agops_by_call(model, images, monkeypatch):
    """Weight and mean outer product of patch gradients, for each call of `conv2d` and `linear` in its order."""
    model = model.eval()
    totals, weights = [], []
    for image in images:
        calls = Calls()
        with monkeypatch.context() as patch:
            patch.setattr(functional, "conv2d", calls.conv2d)
            patch.setattr(functional, "linear", calls.linear)
            outputs = model(image[None]).reshape(-1)
        weights = calls.weights
        totals = totals or [0.0] * len(weights)
        for value in outputs:
            gradients = torch.autograd.grad(value, calls.leaves, retain_graph=True)
            for index, gradient in enumerate(gradients):
                totals[index] = totals[index] + torch.einsum("npga,npgb->gab", gradient, gradient)
    return weights, [total / len(images) for total in totals]
