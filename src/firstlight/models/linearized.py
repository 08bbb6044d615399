"""A network replaced by its first-order expansion in the weights."""

import copy
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function, forward_ad

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.seeds import generator_from

_NO_FORWARD_MODE = re.compile(r"forward AD with (\S+) that does not support it")


class TensorTree(nn.Module):
    """Tensors under dotted names, so that they are saved, moved and converted like those of a network."""

    def __init__(self, tensors: Mapping[str, Tensor | nn.Parameter]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            *folders, last = name.split(".")
            node: nn.Module = self
            for folder in folders:
                if folder not in node._modules:
                    node.add_module(folder, TensorTree({}))
                node = node.get_submodule(folder)
            if isinstance(tensor, nn.Parameter):
                node.register_parameter(last, tensor)
            else:
                node.register_buffer(last, tensor)


class LinearizedModel(nn.Module):
    r"""The linear model :math:`f(w_0, x) + J(x)\,u`, trained in u; made by :func:`linearize`.

    Parameters
    ----------
    displacement
        u, under the names of the weights it moves; the only trainable parameters.
    start : mapping of str to Tensor
        :math:`w_0`, weights that do not train, and running statistics. All frozen.

    Notes
    -----
    Always in evaluation mode inside, whatever ``train()`` says. Weight decay pulls u to 0, that is the
    weights to :math:`w_0`, where in the network it pulls them to 0.
    """

    def __init__(self, skeleton: nn.Module, start: Mapping[str, Tensor], trainable: tuple[str, ...]) -> None:
        super().__init__()
        self._skeleton = (
            skeleton,
        )  # in a tuple, so that it is not a child, which train() and to() would change
        self.start = TensorTree(start)
        self.displacement = TensorTree(
            {name: nn.Parameter(torch.zeros_like(start[name])) for name in trainable}
        )
        self._is_checked = False

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """Linear prediction; differentiable in u by one pass backwards, and in the inputs."""
        if not self._is_checked:
            self._demand_one_derivative(inputs, options)
            self._is_checked = True
        value, tangent = self._expanded(dict(self.displacement.named_parameters()), inputs, options)
        return value + tangent

    def start_outputs(self, *inputs: Any, **options: Any) -> Tensor:
        """Outputs of the network at the point of linearisation, without gradients."""
        with torch.no_grad():
            return self._outputs({}, inputs, options)

    def pullback(self, cotangents: Tensor, *inputs: Any, **options: Any) -> dict[str, Tensor]:
        r"""The product :math:`J^\top r` with one row of r per image, by one pass backwards."""
        names = list(dict(self.displacement.named_parameters()))
        held = self._held()
        with torch.enable_grad():
            leaves = {name: held[name].clone().requires_grad_() for name in names}
            outputs = self._outputs(leaves, inputs, options)
            gradients = torch.autograd.grad(
                outputs, list(leaves.values()), cotangents, allow_unused=True, materialize_grads=True
            )
        return dict(zip(names, gradients, strict=True))

    def pushforward(self, displacement: Mapping[str, Tensor], *inputs: Any, **options: Any) -> Tensor:
        """The product :math:`J u` with a displacement of all trainable weights, by one pass forwards."""
        with torch.no_grad():
            return self._expanded(displacement, inputs, options)[1]

    def weights(self) -> dict[str, Tensor]:
        """The displaced weights :math:`w_0 + u`, by name."""
        held = self._held()
        return {name: held[name] + u.detach() for name, u in self.displacement.named_parameters()}

    @torch.no_grad()
    def displace(self, displacement: Mapping[str, Tensor]) -> "LinearizedModel":
        """Set u, in place; names that are absent stay as they are."""
        own = dict(self.displacement.named_parameters())
        for name, value in displacement.items():
            if name not in own:
                raise unknown_name("weight", name, own)
            own[name].copy_(value)
        return self

    def _held(self) -> dict[str, Tensor]:
        return dict(self.start.named_buffers())

    def _outputs(
        self, instead: Mapping[str, Tensor], inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> Tensor:
        with _filled(self._skeleton[0], {**self._held(), **instead}):
            outputs = self._skeleton[0](*inputs, **options)
        if not isinstance(outputs, Tensor):
            raise InvalidInput(
                f"the model must return one tensor to be linearised; it returns a {type(outputs).__name__}. "
                "Wrap it in a module that picks the part you mean."
            )
        return outputs

    def _expanded(
        self, displacement: Mapping[str, Tensor], inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Value at the start and derivative along u, in one pass forwards."""
        held = self._held()
        with _operations_named(), forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(held[name], u) for name, u in displacement.items()}  # type: ignore[no-untyped-call]
            value, tangent = forward_ad.unpack_dual(self._outputs(duals, inputs, options))  # type: ignore[no-untyped-call]
        if tangent is None:
            raise InvalidInput(
                "the outputs must depend on the trainable weights; they do not. Check `requires_grad` and "
                "whether the forward pass uses the weights it holds."
            )
        return value, tangent

    def _demand_one_derivative(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Refuse chance in the forward pass, and derivatives that differ forwards and backwards.

        ``detach`` and ``no_grad`` stop derivatives backwards but not forwards: the test is
        <r, J u> = <J^T r, u> for random u, with r = J u and with a random r. A random r alone is now and then nearly at
        right angles to what is lost.
        """
        inputs = tuple(x[:2].detach() if isinstance(x, Tensor) and x.ndim > 1 else x for x in inputs)
        generator = generator_from("one derivative", 0)
        own = {name: u.detach() for name, u in self.displacement.named_parameters()}
        direction = {name: torch.randn(u.shape, generator=generator).to(u) for name, u in own.items()}
        with torch.no_grad():
            value, forwards = self._expanded(direction, inputs, options)
            again = self._outputs({}, inputs, options)
        scale = float(value.abs().max())
        tolerance = 1000 * torch.finfo(value.dtype).eps ** 0.75
        if not bool((value - again).abs().max() <= tolerance * max(scale, 1e-30)):
            raise InvalidInput(
                "the model must give the same answer twice; it draws random numbers in evaluation mode. "
                "Take out what is random, such as dropout that ignores eval()."
            )
        chance = torch.randn(value.shape, generator=generator).to(value)
        for rows in (forwards, chance):
            pulled = self.pullback(rows, *inputs, **options)
            backwards = sum(float((pulled[name] * u).sum()) for name, u in direction.items())
            size = float(forwards.norm() * rows.norm())
            if not abs(float((forwards * rows).sum()) - backwards) <= tolerance * max(size, 1e-30):
                raise InvalidInput(
                    "the model must have one derivative; forwards and backwards give different ones. Remove "
                    "detach, no_grad or hand-written gradients from its forward."
                )


@contextmanager
def _filled(skeleton: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Lend tensors to a module for one call.

    ``torch.func.functional_call`` does not give the old tensors back where one module has two names.
    """
    names: dict[int, str] = {id(p): name for name, p in skeleton.named_parameters()}
    names |= {id(b): name for name, b in skeleton.named_buffers()}
    slots = [
        (holder, key, old)
        for module in skeleton.modules()
        for holder in (module._parameters, module._buffers)
        for key, old in holder.items()
        if old is not None
    ]
    try:
        for holder, key, old in slots:
            holder[key] = tensors[names[id(old)]]  # type: ignore[assignment]
        yield
    finally:
        for holder, key, old in slots:
            holder[key] = old  # type: ignore[assignment]


@contextmanager
def _operations_named() -> Iterator[None]:
    """Turn torch's refusal to differentiate forwards into an error that names the operation."""
    try:
        yield
    except (NotImplementedError, RuntimeError) as error:
        text = str(error)
        named = _NO_FORWARD_MODE.search(text)
        if named is None and "jvp" not in text.lower() and "forward mode" not in text.lower():
            raise
        name = named.group(1) if named else _function_name(error)
        raise InvalidInput(
            "every operation of the model must have a forward-mode derivative to be linearised; this one has "
            f"none: {name}. Replace it by one that torch can differentiate forwards."
        ) from error


def _function_name(error: BaseException) -> str:
    """Name of the hand-written autograd function that an error came from, else the error's first line."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    owners = [frame.f_locals["cls"] for frame in frames if "cls" in frame.f_locals]
    functions = [owner for owner in owners if isinstance(owner, type) and issubclass(owner, Function)]
    return functions[-1].__name__ if functions else str(error).splitlines()[0].rstrip(".")


def linearize(model: nn.Module) -> LinearizedModel:
    r"""Replace a network by its first-order expansion in the weights.

    .. math:: f_{lin}(u, x) = f(w_0, x) + J(x)\,u, \qquad J(x) = \partial f(w_0, x)/\partial w

    Called and trained like the network: :math:`J u` is one pass in forward mode with the values, and the
    gradient :math:`J^\top r` one pass backwards, whatever the number of outputs. A step costs about 1.5
    ordinary steps. The model that comes in is copied, not changed.

    Parameters
    ----------
    model : torch.nn.Module
        Any network whose operations have forward-mode derivatives. Parameters with `requires_grad` off
        stay where they are. Batch normalisation runs with its running statistics.

    Raises
    ------
    InvalidInput
        For dropout in training mode, normalisation by the batch's own statistics and, when called for
        the first time, operations without forward-mode derivative, randomness and detached paths.

    References
    ----------
    .. [1] Linearized, section 2. The paper takes one backward pass per output and sample instead.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> line = linearize(model)
    >>> x = torch.ones(4, 3)
    >>> bool((line(x) == model(x)).all()), [name for name, _ in line.named_parameters()]
    (True, ['displacement.weight', 'displacement.bias'])
    """
    _demand_linearisable(model)
    start = _start(model)
    trainable = tuple(name for name, p in model.named_parameters() if p.requires_grad)
    if not trainable:
        raise InvalidInput(
            "the model must hold trainable weights; all have `requires_grad` off, or none exist."
        )
    hollow: dict[int, Any] = {}  # what deepcopy shall put in place of the tensors: nothing is stored twice
    for p in model.parameters():
        hollow[id(p)] = nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=False)
    for b in model.buffers():
        hollow[id(b)] = torch.empty_like(b, device="meta")
    return LinearizedModel(copy.deepcopy(model, hollow).eval(), start, trainable)


def _start(model: nn.Module) -> dict[str, Tensor]:
    own: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    start = {name: value.detach().clone() for name, value in own.items()}
    for name, value in start.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise InvalidInput(f"{name!r} holds NaN or infinite weights. Linearise at finite weights.")
    return start


def _demand_linearisable(model: nn.Module) -> None:
    if isinstance(model, LinearizedModel):
        raise InvalidInput("the model is linear in its weights already. Linearise the network itself.")
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0 and module.training:
            raise InvalidInput(
                f"layer {name!r} drops units at random, so the network has no one derivative. Build the model "
                "with dropout=0, or call eval() on it first to linearise it without dropout."
            )
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise InvalidInput(
                f"layer {name!r} normalises by the statistics of the batch even in evaluation mode, so images "
                "are not answered one by one. Build it with track_running_stats=True."
            )
        if any(isinstance(p, nn.UninitializedParameter) for p in module.parameters(recurse=False)):
            raise InvalidInput(
                f"layer {name!r} must have its weights; it is lazy. Run the model once before."
            )
