"""Several networks of one architecture, trained as one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.progress import progress
from firstlight._internal.seeds import generator_from
from firstlight.training.loop import History
from firstlight.training.recipe import Recipe

_RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)


def train_together(
    models: Sequence[nn.Module],
    inputs: Tensor,
    targets: Tensor,
    recipe: Recipe,
    *,
    label: str = "Training together",
    show: bool | None = None,
    fused: bool = False,
) -> list[History]:
    """Train networks of one architecture in place, all in one step: their weights are stacked and mapped over.

    Each network sees the images in the order of its own seed, ``recipe.seed, recipe.seed + 1, ...``, and ends
    where :func:`firstlight.training.train` would take it with that recipe, up to the growth of rounding errors: sums
    run in another order. It pays where steps are small: four networks of the identity task take six tenths of the
    CPU time; those of the tour, whose convolutions fill a core by themselves, twice as much.

    Parameters
    ----------
    models : sequence of torch.nn.Module
        Equal but for their weights; without batch normalisation, dropout or other state.
    inputs, targets : Tensor
        As for :func:`firstlight.training.train`, the same for all networks.
    recipe : Recipe
        All settings. A network that falls below `stop_below` keeps the weights of that moment.
    label, show : str or bool
        Label of the progress bar, and whether to show it.
    fused : bool, default False
        Update all weights in one pass where torch can.

    Raises
    ------
    Diverged
        If the loss of one of the networks is no longer a finite number.

    Examples
    --------
    >>> models = [nn.Linear(2, 1, bias=False) for _ in range(3)]
    >>> recipe = Recipe(loss="mse", batch_size=None, steps=200, lr=0.5)
    >>> histories = train_together(models, torch.eye(2), torch.ones(2, 1), recipe, show=False)
    >>> [round(float(model.weight.sum()), 4) for model in models]
    [2.0, 2.0, 2.0]
    """
    _check(models)
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise InvalidInput(f"`targets` must match `inputs`; got {len(targets)} for {len(inputs)} examples.")
    weights = _Weights(models)
    optimiser = recipe.build_optimiser(weights, fused=fused)
    total = recipe.total_steps(len(inputs))
    recipes = [replace(recipe, seed=recipe.seed + i) for i in range(len(models))]
    losses: list[list[float]] = [[] for _ in models]
    hits: list[list[float]] = [[] for _ in models]
    going = set(range(len(models)))
    with progress(label, total=total, unit="steps", show=show) as bar:
        for step, (x, y) in enumerate(_batches(inputs, targets, recipes, total)):
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate(step=step, total=total)
            outputs = weights(x)
            each = vmap(recipe.loss_of)(outputs, y)
            for i in sorted(going):
                losses[i].append(_finite(float(each[i].detach()), i, step, recipe))
                hits[i].append(_share_right(outputs[i], y[i]))
                if recipe.stop_below is not None and losses[i][-1] < recipe.stop_below:
                    weights.write(models[i], i)
                    going.remove(i)
            if not going:
                break
            optimiser.zero_grad(set_to_none=True)
            each.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            bar.advance(1)
    for i in going:
        weights.write(models[i], i)
    return [
        History(
            loss=torch.tensor(losses[i], dtype=torch.float64),
            hits=torch.tensor(hits[i], dtype=torch.float64),
            steps_per_epoch=recipe.steps_per_epoch(len(inputs)),
            stopped_early=i not in going,
        )
        for i in range(len(models))
    ]


class _Weights(nn.Module):
    """The weights of all networks, one on top of the other, under the names that they have in each."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        stacked, _ = stack_module_state(list(models))
        self._stacked = {name: value.detach().requires_grad_() for name, value in stacked.items()}
        self._run = vmap(lambda own, x: functional_call(models[0], own, (x,)))

    def named_parameters(self, *arguments: object, **options: object) -> Iterator[tuple[str, nn.Parameter]]:
        """As for a module: what the recipe builds its optimiser from."""
        yield from self._stacked.items()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs by network, then image."""
        outputs: Tensor = self._run(self._stacked, x)
        return outputs

    @torch.no_grad()
    def write(self, model: nn.Module, index: int) -> None:
        """Give one network its weights."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self._stacked[name][index])


def _check(models: Sequence[nn.Module]) -> None:
    if not models:
        raise InvalidInput("`models` must hold at least one network; it is empty.")
    shapes = [{name: p.shape for name, p in model.named_parameters()} for model in models]
    if any(type(model) is not type(models[0]) for model in models) or any(s != shapes[0] for s in shapes):
        raise InvalidInput("`models` must have one architecture; their classes or weights differ in shape.")
    for name, module in models[0].named_modules():
        if isinstance(module, _RANDOM) or module._buffers:
            raise InvalidInput(
                f"`models` must be deterministic and without state of their own to be trained together; layer "
                f"{name!r} is {type(module).__name__}. Train them one by one."
            )


def _batches(
    inputs: Tensor, targets: Tensor, recipes: Sequence[Recipe], total: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and targets of every step, by network; each has the order of its own seed."""
    count, n, size = len(recipes), len(inputs), recipes[0].batch_size
    if size is None or size >= n:
        whole = inputs.expand(count, *inputs.shape), targets.expand(count, *targets.shape)
        for _ in range(total):
            yield whole
        return
    per_epoch, orders = recipes[0].steps_per_epoch(n), torch.zeros(0)
    for step in range(total):
        epoch, position = divmod(step, per_epoch)
        if position == 0:
            generators = [generator_from("order", recipe.seed, epoch) for recipe in recipes]
            orders = torch.stack([torch.randperm(n, generator=generator) for generator in generators])
        chosen = orders[:, position * size : (position + 1) * size]
        yield inputs[chosen], targets[chosen]


def _finite(loss: float, index: int, step: int, recipe: Recipe) -> float:
    if not math.isfinite(loss):
        raise Diverged(
            f"The loss of network {index} became {loss} at step {step}. Lower `lr` (now {recipe.lr:g}), or use another "
            "initialisation."
        )
    return loss


def _share_right(outputs: Tensor, targets: Tensor) -> float:
    if targets.is_floating_point():
        return math.nan
    return (outputs.detach().argmax(1) == targets).double().mean().item()
