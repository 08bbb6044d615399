"""Gradients of every output of every image with respect to the weights, layer by layer.

A convolution or linear layer sums, over its positions, the outer product of its input patch with the
gradient at its output. Where those two factors are cheaper than their product, they are kept instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.autograd.hooks import tap_outputs
from firstlight._internal.autograd.model_outputs import OutputName, checked_output, demand_finite_outputs, run
from firstlight._internal.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Rows:
    """Gradients written out: one row per image and output."""

    values: Float[Tensor, "n o m"]

    def __getitem__(self, chosen: slice) -> "Rows":
        return Rows(self.values[chosen])

    def add_product(self, other: "Rows", out: Float[Tensor, "a b"], *, is_trace: bool) -> None:
        """Add the inner products of all rows to `out`, outputs as inner axis or summed over."""
        start = 1 if is_trace else 0
        # "trace" sums over outputs: they join the axis that is summed
        left, right = (rows.values.flatten(start, start + 1) for rows in (self, other))
        out.addmm_(left, right.T)


@dataclass(frozen=True, eq=False)
class Factors:
    """Gradients as sums over positions p of products of inputs and gradients at the layer's output."""

    inputs: Float[Tensor, "p n d"]
    gradients: Float[Tensor, "p n o k"]

    def __getitem__(self, chosen: slice) -> "Factors":
        return Factors(self.inputs[:, chosen], self.gradients[:, chosen])

    def add_product(self, other: "Factors", out: Float[Tensor, "a b"], *, is_trace: bool) -> None:
        r"""Add :math:`\sum_{pq} \langle a_p, a_q\rangle \langle g_p, g_q\rangle` for all pairs of rows."""
        for a, g in zip(self.inputs, self.gradients, strict=True):
            for b, h in zip(other.inputs, other.gradients, strict=True):
                # positions p of one image and q of the other: ⟨a_p, a_q⟩ for all pairs of images at once
                alike = a @ b.T
                if is_trace:
                    # Σ_o ⟨g_po, g_qo⟩ ⟨a_p, a_q⟩
                    out.addcmul_(g.flatten(1) @ h.flatten(1).T, alike)
                else:
                    # ⟨g_po, g_qo'⟩ for all pairs of outputs, each times the same ⟨a_p, a_q⟩
                    products = g.flatten(0, 1) @ h.flatten(0, 1).T
                    blocks = (_blocks(m, g.shape[1]) for m in (out, products))
                    next(blocks).addcmul_(next(blocks), alike[:, None, :, None])


Gradients = Rows | Factors


def add_product(left: Gradients, right: Gradients, out: Float[Tensor, "a b"], *, is_trace: bool) -> None:
    """Add the inner products of the gradients of one layer, held in one way, to `out` in place."""
    if isinstance(left, Rows) and isinstance(right, Rows):
        left.add_product(right, out, is_trace=is_trace)
    else:
        assert isinstance(left, Factors)
        assert isinstance(right, Factors)
        left.add_product(right, out, is_trace=is_trace)


def _blocks(matrix: Float[Tensor, "a b"], outputs: int) -> Float[Tensor, "n o m o"]:
    rows, columns = matrix.shape
    return matrix.view(rows // outputs, outputs, columns // outputs, outputs)


_PASS_ELEMENTS = 4_000_000  # of the patches and outputs of all layers, in one pass over images
_ELEMENTWISE = 30  # cost of an entry of an elementwise pass, in multiplications of a matrix product
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(eq=False)
class _SharedWeight:
    """Modules that hold one weight, and how its gradients are read.

    Parameters
    ----------
    names : tuple of str
        Names of the modules; the first one stands for all.
    module : nn.Conv2d, nn.Linear or nn.modules.batchnorm._BatchNorm
        The first of them.
    weight, bias : str or None
        Names of the parameters that train, or None.
    positions : int, default 0
        Number of positions of all calls together.
    as_rows : bool, default True
        Whether gradients are written out.
    """

    names: tuple[str, ...]
    module: nn.Conv2d | nn.Linear | nn.modules.batchnorm._BatchNorm
    weight: str | None
    bias: str | None
    positions: int = 0
    as_rows: bool = True

    @property
    def groups(self) -> int:
        """Groups of channels that do not meet; every channel is one in a normalisation."""
        if isinstance(self.module, nn.modules.batchnorm._BatchNorm):
            return len(self.module.weight)
        return self.module.groups if isinstance(self.module, nn.Conv2d) else 1

    @property
    def n_filters(self) -> int:
        """Outputs per position."""
        return len(self.module.weight)

    @property
    def width(self) -> int:
        """Trained numbers per filter, the bias included."""
        own = self.module.weight[0].numel() if self.weight is not None else 0
        return own + (self.bias is not None)

    def patches(self, x: Tensor) -> Float[Tensor, "n p g d"]:
        """What the filters are multiplied with, at every position, and a one for the bias."""
        if isinstance(self.module, nn.Conv2d):
            inputs = _unfolded(self.module, x)
        elif isinstance(self.module, nn.Linear):
            inputs = x.reshape(len(x), -1, 1, x.shape[-1])
        else:
            inputs = _normalised(self.module, x)
        parts = [inputs] if self.weight is not None else []
        if self.bias is not None:
            parts.append(inputs.new_ones(*inputs.shape[:3], 1))
        return torch.cat(parts, 3) if len(parts) > 1 else parts[0]

    def output_gradient(self, gradient: Tensor) -> Float[Tensor, "n p g k"]:
        """Gradients at the output, by position and group."""
        if isinstance(self.module, nn.Linear):
            return gradient.reshape(len(gradient), -1, 1, gradient.shape[-1])
        return (
            gradient.flatten(2)
            .reshape(len(gradient), self.groups, -1, gradient[0, 0].numel())
            .permute(0, 3, 1, 2)
        )

    def by_parameter(self, rows: Float[Tensor, "n o m"]) -> dict[str, Tensor]:
        """Split rows into the parameters, in their shapes."""
        parts = rows.reshape(*rows.shape[:2], self.n_filters, self.width)
        by_name: dict[str, Tensor] = {}
        if self.weight is not None:
            end = self.width - (self.bias is not None)
            by_name[self.weight] = parts[..., :end].reshape(*rows.shape[:2], *self.module.weight.shape)
        if self.bias is not None:
            by_name[self.bias] = parts[..., -1]
        return by_name


class WeightGradients:
    """Reads the gradients of a model, once it is known which layers can be read the fast way.

    Parameters
    ----------
    model : torch.nn.Module
        In evaluation mode.
    images : Tensor
        Two are enough. Every layer is tried on them: where the gradients differ from those of plain
        backward passes, because the weights are used elsewhere too or images meet, they are read by plain
        backward passes from then on.
    output : OutputName, optional
        Which part of what the model returns.
    """

    def __init__(self, model: nn.Module, images: Tensor, *, output: OutputName = None) -> None:
        self.model, self.output = model, output
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise InvalidInput("the model must hold trainable weights; all have `requires_grad` off.")
        self.n_outputs = self._outputs(images[:1]).shape[1]
        self.layers: list[_SharedWeight] = []
        self._held_per_image = 0
        self._try_layers(images[:2].detach())

    @property
    def plain(self) -> tuple[str, ...]:
        """Parameters that are read by one backward pass per image and output."""
        fast = {name for layer in self.layers for name in (layer.weight, layer.bias)}
        return tuple(name for name in self.parameters if name not in fast)

    def choose_forms(self, n_outputs: int, *, is_trace: bool) -> None:
        """Decide for every layer whether factors or rows make inner products cheaper."""
        pairs = n_outputs if is_trace else n_outputs**2
        for layer in self.layers:
            k, d = layer.n_filters, layer.width
            # Σ_pq ⟨a_p, a_q⟩⟨g_p, g_q⟩: positions² inner products of length d, and for every pair of outputs of
            # length k; rows: one of length kd per pair
            factors = layer.positions**2 * (d + pairs * (k + _ELEMENTWISE))
            # factors are written for one group only
            layer.as_rows = layer.groups > 1 or pairs * k * d <= factors

    def numbers_per_image(self, n_outputs: int) -> int:
        """Entries that one image leaves behind when it is read."""
        total = n_outputs * sum(self.parameters[name].numel() for name in self.plain)
        for layer in self.layers:
            k, d = layer.n_filters, layer.width
            total += n_outputs * k * d if layer.as_rows else layer.positions * (d + n_outputs * k)
        return total

    def read(
        self,
        images: Tensor,
        cotangents: Float[Tensor, "o c"],
        *,
        reuse: Mapping[str, Gradients] | None = None,
    ) -> dict[str, Gradients]:
        """Gradients of the combinations `cotangents` of the outputs, by the name of the layer.

        `reuse` is an earlier answer that is no longer needed: new rows are written into its memory, which
        for wide layers costs more to obtain than to fill.
        """
        gathered = _Gathered(self.layers, len(images), len(cotangents), reuse or {})
        # as many images per pass as patches and outputs of all layers fit; results do not depend on it
        step = max(1, _PASS_ELEMENTS // max(self._held_per_image, 1))
        for start in range(0, len(images), step):
            self._pass(images[start : start + step], cotangents, gathered, start)
        gradients: dict[str, Gradients] = gathered.result()
        for name, rows in self._plain_rows(images, cotangents):
            gradients[name] = Rows(rows)
        return gradients

    def by_parameter(self, images: Tensor, cotangents: Float[Tensor, "o c"]) -> dict[str, Tensor]:
        """Gradients in the shapes of the parameters, image and output first."""
        for layer in self.layers:
            layer.as_rows = True
        gradients = self.read(images, cotangents)
        parts: dict[str, Tensor] = {}
        for layer in self.layers:
            rows = gradients[layer.names[0]]
            assert isinstance(rows, Rows)
            parts |= layer.by_parameter(rows.values)
        for name in self.plain:
            rows = gradients[name]
            assert isinstance(rows, Rows)
            parts[name] = rows.values.reshape(*rows.values.shape[:2], *self.parameters[name].shape)
        return {name: parts[name] for name in self.parameters}

    def _outputs(self, images: Tensor) -> Float[Tensor, "n c"]:
        result = checked_output(run(self.model, images), self.output, n=len(images))
        demand_finite_outputs(self.model, result)
        if not result.requires_grad:
            raise InvalidInput(
                f"no gradient can be taken of {type(self.model).__name__}: its outputs do not depend on its "
                "trainable weights through differentiable operations. Remove no_grad, argmax or detach."
            )
        return result.flatten(1) if result.ndim > 1 else result[:, None]

    def _pass(self, images: Tensor, cotangents: Tensor, gathered: "_Gathered", start: int) -> None:
        """One pass forwards and one backwards per output, over images that fit into memory."""
        modules = dict(self.model.named_modules())
        gathered.begin(start, len(images))
        with tap_outputs(
            {name: modules[name] for layer in self.layers for name in layer.names},
            gathered.take_gradient,
            look=gathered.take_input,
        ) as taps:
            outputs = self._outputs(images) if self.layers else images.new_zeros(0)
            # one row v of the cotangents at a time: v → g = Jᵀv at the output of every layer
            for index, row in enumerate(cotangents if self.layers else ()):
                gathered.output = index
                torch.autograd.grad(
                    outputs, taps.anchor, row.expand(len(images), -1), retain_graph=True, allow_unused=True
                )

    def _plain_rows(self, images: Tensor, cotangents: Tensor) -> Iterator[tuple[str, Float[Tensor, "n o m"]]]:
        names = self.plain
        weights = [self.parameters[name] for name in names]
        rows = [w.new_zeros(len(images), len(cotangents), w.numel()) for w in weights]
        # unknown layers: one image and one output at a time is slow, and always right
        for i in range(len(images) if names else 0):
            outputs = self._outputs(images[i : i + 1])
            for o, row in enumerate(cotangents):
                for values, gradient in zip(rows, _gradients(outputs[0], weights, row), strict=True):
                    values[i, o] = gradient.flatten()
        yield from zip(names, rows, strict=True)

    def _try_layers(self, images: Tensor) -> None:
        """Keep the layers whose gradients for each image equal those of plain backward passes."""
        # a combination in which no two outputs have the same weight, so that a mix-up of outputs shows
        row = torch.linspace(1.0, 2.0, self.n_outputs).cos().to(images)
        outputs = self._outputs(images)
        truth = [_gradients(output, list(self.parameters.values()), row) for output in outputs]
        expected = {name: torch.stack(parts) for name, *parts in zip(self.parameters, *truth, strict=True)}
        working: list[_SharedWeight] = []
        for layer in _candidates(self.model, self.parameters):
            self.layers = [layer]
            gathered = _Gathered(self.layers, len(images), 1)
            try:
                self._pass(images, row[None], gathered, 0)
                values_by_name = layer.by_parameter(gathered.rows(layer))
            except (RuntimeError, ValueError, IndexError):  # shapes or uses that the fast way does not know
                continue
            if all(_agree(values[:, 0], expected[name]) for name, values in values_by_name.items()):
                working.append(layer)
                layer.positions = gathered.filled[layer.names[0]]
                # patches of d numbers, outputs of k, and their gradients
                self._held_per_image += layer.positions * (layer.width * layer.groups + 2 * layer.n_filters)
        self.layers = working


class _Gathered:
    """Where the gradients of a set of images gather, pass by pass."""

    def __init__(
        self, layers: list[_SharedWeight], n: int, outputs: int, reuse: Mapping[str, Gradients] = {}
    ) -> None:
        self.layers, self.n, self.outputs, self._reuse = layers, n, outputs, reuse
        self._of = {name: layer for layer in layers for name in layer.names}
        self._rows: dict[str, Tensor] = {}
        self._inputs: dict[str, Tensor] = {}
        self._gradients: dict[str, Tensor] = {}
        self.output = 0

    def begin(self, start: int, count: int) -> None:
        """Expect `count` images from number `start` on."""
        self._images, self.count = slice(start, start + count), count
        self.filled = {layer.names[0]: 0 for layer in self.layers}
        self._calls: dict[str, int] = {}
        self._patches: dict[tuple[str, int], Tensor] = {}
        self._place: dict[tuple[str, int], slice] = {}

    def take_input(self, name: str, x: Tensor, output: Tensor) -> None:
        """Keep the patches of a call until its gradients arrive."""
        layer = self._of[name]
        patches = layer.patches(x.detach())
        if len(patches) != self.count:
            raise ValueError("images are folded into other axes")
        call = self._calls.get(name, 0)
        self._calls[name] = call + 1
        before = self.filled[layer.names[0]]
        self.filled[layer.names[0]] = before + patches.shape[1]
        self._place[name, call] = slice(before, before + patches.shape[1])
        if layer.as_rows:
            self._patches[name, call] = patches
            return
        shape = (layer.positions, self.n, layer.width)
        inputs = self._inputs.setdefault(layer.names[0], patches.new_zeros(0))
        if not len(inputs):
            inputs = self._inputs[layer.names[0]] = patches.new_zeros(shape)
        inputs[self._place[name, call], self._images] = patches[:, :, 0].transpose(0, 1)

    def take_gradient(self, name: str, call: int, gradient: Tensor) -> None:
        """Add what a call contributes to the gradient of the current output."""
        layer = self._of[name]
        key, arrived = layer.names[0], layer.output_gradient(gradient)
        if not layer.as_rows:
            if key not in self._gradients:
                shape = (layer.positions, self.n, self.outputs, layer.n_filters)
                self._gradients[key] = arrived.new_zeros(shape)
            place = self._place[name, call]
            self._gradients[key][place, self._images, self.output] = arrived[:, :, 0].transpose(0, 1)
            return
        patches = self._patches[name, call]
        if layer.groups == 1:
            # ∂f/∂W = Σ_p g_p h[p]ᵀ
            values = (arrived[:, :, 0].mT @ patches[:, :, 0]).flatten(1)
        else:
            values = torch.einsum("npgk,npgd->ngkd", arrived, patches).flatten(1)
        target = self.rows(layer, like=gradient)[self._images, self.output]
        if self._place[name, call] == slice(0, self.filled[key]):  # the only call: nothing to add to
            target.copy_(values)
        else:
            target.add_(values)

    def rows(self, layer: _SharedWeight, *, like: Tensor | None = None) -> Float[Tensor, "n o m"]:
        """Rows of a layer; zero where no gradient reached it."""
        if layer.names[0] not in self._rows:
            old, made = self._reuse.get(layer.names[0]), layer.module.weight if like is None else like
            shape = (self.n, self.outputs, layer.n_filters * layer.width)
            fits = isinstance(old, Rows) and old.values.shape == shape
            self._rows[layer.names[0]] = old.values.zero_() if fits else made.detach().new_zeros(shape)  # type: ignore[union-attr]
        return self._rows[layer.names[0]]

    def result(self) -> dict[str, Gradients]:
        """All that was gathered, by the name of the layer."""
        gradients: dict[str, Gradients] = {}
        for layer in self.layers:
            key = layer.names[0]
            if layer.as_rows:
                gradients[key] = Rows(self.rows(layer))
            else:
                inputs = self._inputs[key]
                shape = (layer.positions, self.n, self.outputs, layer.n_filters)
                gradients[key] = Factors(inputs, self._gradients.get(key, inputs.new_zeros(shape)))
        return gradients


def _candidates(model: nn.Module, parameters: Mapping[str, Tensor]) -> list[_SharedWeight]:
    """Layers of known kinds, those that share a weight together, unless they disagree about the bias."""
    names = {id(p): name for name, p in parameters.items()}
    sharing: dict[int, list[tuple[str, nn.Module]]] = {}
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, *_NORMS)) and isinstance(module.weight, Tensor):
            sharing.setdefault(id(module.weight), []).append((name, module))
    candidates: list[_SharedWeight] = []
    for members in sharing.values():
        first = members[0][1]
        assert isinstance(first, nn.Conv2d | nn.Linear | nn.modules.batchnorm._BatchNorm)
        weight, bias = names.get(id(first.weight)), names.get(id(first.bias))
        alike = all(type(m) is type(first) and getattr(m, "bias", None) is first.bias for _, m in members)
        if alike and (weight or bias):
            candidates.append(_SharedWeight(tuple(name for name, _ in members), first, weight, bias))
    return candidates


def _unfolded(conv: nn.Conv2d, x: Tensor) -> Float[Tensor, "n p g d"]:
    if any(conv._reversed_padding_repeated_twice):
        mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
        x = F.pad(x, conv._reversed_padding_repeated_twice, mode=mode)
    # padded before, by whatever mode the convolution has: unfold itself pads with zeros only
    columns = F.unfold(x, conv.kernel_size, conv.dilation, 0, conv.stride)
    return columns.mT.reshape(len(x), -1, conv.groups, columns.shape[1] // conv.groups)


def _normalised(norm: nn.modules.batchnorm._BatchNorm, x: Tensor) -> Float[Tensor, "n p g 1"]:
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None:
        raise ValueError("statistics of the batch")
    shape = (1, -1, *[1] * (x.ndim - 2))
    # y = γ x̂ + β is linear in (γ, β) with the "patch" (x̂, 1), one channel per group
    standard = (x - mean.reshape(shape)) / (variance + norm.eps).sqrt().reshape(shape)
    return standard.reshape(len(x), x.shape[1], -1).mT[..., None]


def _gradients(outputs: Tensor, weights: Sequence[Tensor], row: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        outputs, tuple(weights), row, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def _agree(a: Tensor, b: Tensor) -> bool:
    # between rounding, which grows with depth, and a wrong formula, which is off by far more
    tolerance = 100 * torch.finfo(a.dtype).eps ** 0.75
    return bool((a - b).norm() <= tolerance * b.norm() + torch.finfo(a.dtype).tiny)
