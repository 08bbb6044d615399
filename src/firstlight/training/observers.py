"""Watching a training without touching it.

An observer is any callable ``(step, model)``. It is called with step 0 before the first update and after
every update. If it has `state_dict` and `load_state_dict` (dictionaries of tensors), what it saw
survives a killed process.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput


@runtime_checkable
class Observer(Protocol):
    """Called with step 0 before training and after every step."""

    def __call__(self, step: int, model: nn.Module) -> None:
        """Look at the model; do not change it."""


@runtime_checkable
class Recorder(Protocol):
    """An observer whose record is kept with the run."""

    def __call__(self, step: int, model: nn.Module) -> None:
        """Look at the model; do not change it."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was recorded so far."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a record."""


class Snapshots:
    """Copies of chosen parameters at chosen steps, on the CPU.

    Parameters
    ----------
    names : sequence of str
        Full parameter names, as in ``model.named_parameters()``.
    steps : sequence of int, optional
        The steps to keep; None keeps all.
    """

    def __init__(self, names: Sequence[str], *, steps: Sequence[int] | None = None) -> None:
        self.names = tuple(names)
        self.wanted = None if steps is None else frozenset(steps)
        self._steps: list[int] = []
        self._copies: dict[str, list[Tensor]] = {name: [] for name in self.names}

    def __call__(self, step: int, model: nn.Module) -> None:
        """Copy the parameters if this step is wanted."""
        if self.wanted is not None and step not in self.wanted:
            return
        parameters = dict(model.named_parameters())
        self._steps.append(step)
        for name in self.names:
            if name not in parameters:
                raise InvalidInput(f"no parameter is called {name!r}. Known: {', '.join(parameters)}.")
            self._copies[name].append(parameters[name].detach().to("cpu", copy=True))

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps at which copies were taken."""
        return tuple(self._steps)

    def __getitem__(self, name: str) -> Tensor:
        """Copies of one parameter, stacked along a new first axis."""
        return torch.stack(self._copies[name])

    def state_dict(self) -> dict[str, Tensor]:
        """Return the copies, and the steps under the name "steps"."""
        stacked = {name: self[name] for name in self.names if self._steps}
        return {"steps": torch.tensor(self._steps, dtype=torch.int64), **stacked}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from saved copies."""
        self._steps = [int(s) for s in state["steps"]]
        self._copies = {name: list(state[name]) if self._steps else [] for name in self.names}


def geometric_steps(total: int, *, count: int = 24) -> tuple[int, ...]:
    """Steps 0, 1, ... `total`, dense at the start: what one wants for curves on a logarithmic axis.

    Examples
    --------
    >>> geometric_steps(100, count=6)
    (0, 1, 3, 10, 32, 100)
    """
    if total < 1:
        return (0,)
    grid = torch.logspace(
        0, float(torch.tensor(float(total)).log10()), max(count - 1, 2), dtype=torch.float64
    )
    return (0, *sorted({round(s) for s in grid.tolist()}))
