"""A network read from an ONNX file, with layers of PyTorch in the place of its weights."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import reason_of
from firstlight.models.onnx.layers import LAYERS, layer_of
from firstlight.models.onnx.operations import operation
from firstlight.models.onnx.reading import Graph, Node, read_graph

FOLDED = {"Constant", "Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze"}
"""Operations that are carried out once if all they need is stored: weights are often stored transposed."""


@dataclass(frozen=True)
class _Step:
    """An operation or a layer with the names of what goes in and comes out."""

    do: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def load_onnx(path: Path) -> "OnnxNetwork":
    """Read a network from an ONNX file and rebuild it from layers of PyTorch.

    Nothing in the file is run, and no library of ONNX is needed. Convolutions, linear layers and normalisations
    become layers of PyTorch, so that everything can be measured of them; weights in half and double precision become
    float32. A file that was exported for one image at a time answers image by image.

    Parameters
    ----------
    path : Path
        The file, with its weights inside.

    Returns
    -------
    OnnxNetwork
        In evaluation mode.
    """
    graph = read_graph(path)
    if len(graph.inputs) != 1:
        raise InvalidInput(f"{path} must take one input, images; it takes {', '.join(graph.inputs)}.")
    ((_, sides),) = graph.inputs.items()
    if sides and sides[0] not in (None, 1):
        raise InvalidInput(
            f"{path} must take any number of images, or one at a time; it was exported for {sides[0]}. Export it "
            "with a dynamic first axis."
        )
    try:
        return OnnxNetwork(graph).eval()
    except InvalidInput as error:
        raise InvalidInput(f"{path} cannot be rebuilt: {error}") from error
    except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be rebuilt: {reason_of(error)}.") from error


class OnnxNetwork(nn.Module):
    """The network of an ONNX file.

    Parameters
    ----------
    graph : Graph
        What the file says.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        ((self._input, sides),) = graph.inputs.items()
        self._outputs = tuple(graph.outputs)
        self._is_single = bool(sides) and sides[0] == 1
        # files that were made from TensorFlow often take images with the channels last
        self._channels_last = len(sides) == 4 and sides[3] in (1, 3, 4) and sides[1] not in (1, 3, 4)
        self._numbers: dict[str, Tensor] = {}  # sides and axes: whole numbers that never leave the processor
        self._weights: dict[str, tuple[nn.Module, str]] = {}
        self._layers: dict[str, nn.Module] = {}
        self._steps = tuple(self._steps_of(graph))
        self._last_use = self._last_uses()

    def forward(self, images: Tensor) -> Tensor | dict[str, Tensor]:
        """Outputs of the network; a dictionary by name if it has several."""
        if self._channels_last:
            images = images.permute(0, 2, 3, 1)
        if not self._is_single or len(images) == 1:
            answer: Tensor | dict[str, Tensor] = self._answer(images)
            return answer
        answers = [self._answer(image[None]) for image in images]
        if len(self._outputs) > 1:
            return {name: torch.cat([one[name] for one in answers]) for name in self._outputs}
        return torch.cat(answers)

    def _answer(self, images: Tensor) -> Any:
        values: dict[str, Any] = {self._input: images, "": None, **self._numbers}
        values |= {name: getattr(holder, leaf) for name, (holder, leaf) in self._weights.items()}
        for place, step in enumerate(self._steps):
            result = step.do(*(values[name] for name in step.inputs))
            several = result if isinstance(result, tuple) else (result,)
            values |= zip(step.outputs, several, strict=False)
            for name in self._last_use.get(place, ()):  # what nobody needs any more takes no memory
                values.pop(name, None)  # an output that only training has was never made
        answers = {name: values[name] for name in self._outputs}
        return answers if len(answers) > 1 else answers[self._outputs[0]]

    # ---------------------------------------------------------------- building

    def _steps_of(self, graph: Graph) -> Iterator[_Step]:
        known = {"", self._input}
        tensors = graph.tensors
        for place, node in enumerate(graph.nodes):
            for name in node.inputs:
                if name not in known and name not in tensors:
                    raise InvalidInput(
                        f"{node.kind} needs {name!r}, which no known operation gives before it."
                    )
            if node.kind in FOLDED and all(name in tensors for name in node.inputs):
                do = operation(node.kind, node.attributes, graph.opset)
                assert do is not None
                tensors[node.outputs[0]] = do(*(tensors[name] for name in node.inputs))
                continue
            yield self._step(node, tensors, place, graph.opset)
            known |= set(node.outputs if node.kind == "Split" else node.outputs[:1])
        for name in self._outputs:
            if name not in known:
                raise InvalidInput(f"no operation gives the output {name!r}.")

    def _step(self, node: Node, tensors: dict[str, Tensor], place: int, opset: int) -> _Step:
        if node.kind in LAYERS and node.inputs[0] not in tensors:
            key = repr((node.kind, node.inputs[1:], sorted(node.attributes.items())))
            layer = self._layers.get(key) or layer_of(node, tensors)
            if layer is not None:
                if key not in self._layers:  # a layer that is applied twice is one layer
                    self._layers[key] = layer
                    self._place(_path_of(node, place), layer)
                return _Step(layer, node.inputs[:1], node.outputs[:1])
        do = operation(node.kind, {**node.attributes, "n_outputs": len(node.outputs)}, opset)
        if do is None:
            raise InvalidInput(
                f"the operation {node.kind} is not known here. Load the model in the framework that it was made with."
            )
        for name in node.inputs:
            if name in tensors:
                self._keep(name, tensors[name])
        return _Step(do, node.inputs, node.outputs)

    def _place(self, path: str, layer: nn.Module) -> None:
        """Add a layer under its dotted name, with modules that hold nothing on the way."""
        *folders, leaf = path.split(".")
        holder: nn.Module = self
        for folder in folders:
            name = folder if folder in holder._modules else _free_name(holder, folder)
            if name not in holder._modules:
                holder.add_module(name, nn.Module())
            holder = holder.get_submodule(name)
        holder.add_module(_free_name(holder, leaf), layer)

    def _keep(self, name: str, tensor: Tensor) -> None:
        """Keep a stored tensor that no layer owns: a weight, or whole numbers that set sides and axes."""
        if name in self._weights or name in self._numbers:
            return
        if not tensor.is_floating_point():
            self._numbers[name] = tensor
            return
        if "constants" not in self._modules:
            self.add_module("constants", nn.Module())
        holder, leaf = self.get_submodule("constants"), f"tensor_{len(self._weights)}"
        if tensor.numel() > 1:
            holder.register_parameter(leaf, nn.Parameter(tensor))
        else:
            holder.register_buffer(leaf, tensor)
        self._weights[name] = (holder, leaf)

    def _last_uses(self) -> dict[int, tuple[str, ...]]:
        last: dict[str, int] = {}
        for place, step in enumerate(self._steps):
            last |= dict.fromkeys((*step.outputs, *step.inputs), place)
        kept = {*self._outputs, *self._numbers, *self._weights, ""}
        uses: dict[int, list[str]] = {}
        for name, place in last.items():
            if name not in kept:
                uses.setdefault(place, []).append(name)
        return {place: tuple(names) for place, names in uses.items()}


def _free_name(holder: nn.Module, name: str) -> str:
    """The name, or one with a number behind it if the module has something else of that name."""
    candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    return next(candidate for candidate in candidates if not hasattr(holder, candidate))


def _path_of(node: Node, place: int) -> str:
    """Dotted name of a layer: that of its weight if it has one that says something, else that of the node."""
    weight = node.inputs[1]
    if weight.endswith(".weight"):
        parts = weight.removesuffix(".weight").split(".")
    else:
        # exporters write the path of a module as /layer1/layer1.0/conv1/Conv
        parts = [part for part in node.name.split("/") if part]
        if parts and parts[-1].partition("_")[0] == node.kind:
            parts.pop()
        parts = [
            part
            for i, part in enumerate(parts)
            if not (i + 1 < len(parts) and parts[i + 1].startswith(f"{part}."))
        ]
        parts = ".".join(parts).split(".")
    named = [part for part in parts if part]
    return ".".join(named) if named else f"{node.kind.lower()}{place}"
