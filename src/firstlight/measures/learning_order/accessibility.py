"""Which examples are learned when: one bit per example and epoch, from any training loop.

Ours calls an observer with (step, model). In a plain PyTorch loop::

    recorder = AccessibilityRecorder(x, y)      # before
    recorder.record(model)                      # at the end of every epoch
    scores = recorder.history().scores          # after

In Lightning, pass ``callbacks=[AccessibilityCallback(recorder)]``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from firstlight._autograd.model_state import evaluating
from firstlight.core.errors import InvalidInput
from firstlight.core.result import Result


@dataclass(frozen=True, kw_only=True, eq=False)
class AccessibilityHistory(Result):
    """Right or wrong, for every network, epoch and example.

    Parameters
    ----------
    bits : uint8 Tensor of shape (nets, epochs, bytes)
        Eight examples a byte, the first in the highest bit.
    n_examples : int
        Number of examples; the last byte may have bits to spare.
    """

    bits: UInt8[Tensor, "nets epochs bytes"]
    n_examples: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits.shape[0] == 0 or self.bits.shape[1] == 0:
            raise InvalidInput(
                "a history needs at least one network and one epoch. Call `record` each epoch."
            )

    @property
    def correct(self) -> Bool[Tensor, "nets epochs n"]:
        """The bits spread out."""
        unpacked = np.unpackbits(self.bits.numpy(), axis=-1, count=self.n_examples)
        return torch.from_numpy(unpacked).bool()

    @property
    def by_network(self) -> Float[Tensor, "nets n"]:
        """Share of epochs in which each network was right."""
        return torch.stack([_means(rows, self.n_examples, axis=0) for rows in self.bits])

    @property
    def scores(self) -> Float[Tensor, " n"]:
        r"""Accessibility: the share of networks and epochs that are right.

        .. math:: \mathrm{acc}(x) = \frac{1}{N E} \sum_{i=1}^{N} \sum_{e=1}^{E} 1[f_i^e(x) = y(x)]

        1 is learned at once by all, 0 never by any.
        """
        return self.by_network.mean(0)

    @property
    def accuracy(self) -> Float[Tensor, "nets epochs"]:
        """Share of examples that are right."""
        return torch.stack([_means(rows, self.n_examples, axis=1) for rows in self.bits])

    @property
    def n_networks(self) -> int:
        """Number of networks."""
        return len(self.bits)

    @property
    def n_epochs(self) -> int:
        """Number of recorded epochs."""
        return self.bits.shape[1]

    def up_to(self, epochs: int) -> "AccessibilityHistory":
        """The first epochs only."""
        if not 1 <= epochs <= self.n_epochs:
            raise InvalidInput(f"`epochs` must lie in 1 .. {self.n_epochs}; got epochs={epochs}.")
        return AccessibilityHistory(bits=self.bits[:, :epochs], n_examples=self.n_examples)

    def networks(self, chosen: Sequence[int] | slice) -> "AccessibilityHistory":
        """Some of the networks, as an ensemble of their own."""
        index = chosen if isinstance(chosen, slice) else torch.tensor(list(chosen), dtype=torch.int64)
        return AccessibilityHistory(bits=self.bits[index], n_examples=self.n_examples)


class AccessibilityRecorder:
    """Notes after every epoch which examples a network classifies correctly.

    Parameters
    ----------
    inputs : Tensor or None
        The examples to follow, training or test; None if outputs are handed in by :meth:`batch`.
    labels : integer Tensor of shape (n,)
        Their classes. A network with one output is taken to score class 1 against class 0.
    every : int, default 1
        With our loop, steps per epoch.
    batch_size : int, default 100
        Examples per forward pass; activations of larger ones leave the cache.

    Notes
    -----
    The record survives a killed process: it is part of the checkpoint through `state_dict`.

    Examples
    --------
    >>> recorder = AccessibilityRecorder(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> recorder.record(nn.Identity())
    >>> recorder.history().scores.tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(
        self, inputs: Tensor | None, labels: Int[Tensor, " n"], *, every: int = 1, batch_size: int = 100
    ) -> None:
        if inputs is not None and len(inputs) != len(labels):
            raise InvalidInput(f"`labels` must match `inputs`; got {len(labels)} for {len(inputs)} examples.")
        if len(labels) == 0 or every < 1 or batch_size < 1:
            raise InvalidInput(
                f"examples, `every` and `batch_size` must be at least 1; got {len(labels)}, {every}, {batch_size}."
            )
        self.inputs, self.labels = inputs, labels
        self.every, self.batch_size = every, batch_size
        self._rows: list[np.ndarray] = []
        self._open = np.zeros(len(labels), dtype=bool)
        self._seen = np.zeros(len(labels), dtype=bool)

    def __call__(self, step: int, model: nn.Module) -> None:
        """Record after every epoch, as an observer of our loop."""
        if step and step % self.every == 0:
            self.record(model)

    def record(self, model: nn.Module) -> None:
        """One forward pass over the examples in evaluation mode closes an epoch."""
        if self.inputs is None:
            raise InvalidInput("`record` needs the examples: pass `inputs`, or hand outputs to `batch`.")
        like = next(model.parameters(), None)
        right = []
        with torch.no_grad(), evaluating(model):
            blocks = zip(
                torch.split(self.inputs, self.batch_size),
                torch.split(self.labels, self.batch_size),
                strict=True,
            )
            for x, y in blocks:
                x = x if like is None else x.to(like.device, like.dtype)
                right.append(_hits(model(x), y))
        self._rows.append(np.packbits(np.concatenate(right)))

    def batch(self, outputs: Float[Tensor, "b *k"], index: Int[Tensor, " b"]) -> None:
        """Reuse the outputs of a training step: nearly free, but with dropout on and weights in motion.

        Parameters
        ----------
        outputs : Tensor of shape (b, ...)
            Outputs for the batch.
        index : integer Tensor of shape (b,)
            Which examples they belong to.
        """
        where = index.detach().cpu()
        hits = _hits(outputs.detach(), self.labels[where.to(self.labels.device)])
        self._open[where.numpy()] = hits
        self._seen[where.numpy()] = True

    def end_epoch(self) -> None:
        """Close the epoch that :meth:`batch` has filled; examples not seen count as they did before."""
        if not self._seen.any():
            raise InvalidInput("`end_epoch` must follow a `batch`; no outputs came since the last one.")
        self._rows.append(np.packbits(self._open))
        self._seen[:] = False

    def history(self) -> AccessibilityHistory:
        """What was recorded, as a history of one network."""
        return history_of([self.state_dict()])

    def state_dict(self) -> dict[str, Tensor]:
        """Everything recorded so far."""
        n = len(self.labels)
        rows = np.stack(self._rows) if self._rows else np.zeros((0, -(-n // 8)), dtype=np.uint8)
        return {
            "bits": torch.from_numpy(rows),
            "n_examples": torch.tensor(n),
            "open": torch.from_numpy(np.packbits(self._open)),
            "seen": torch.from_numpy(np.packbits(self._seen)),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a record of the same examples."""
        n = len(self.labels)
        if int(state["n_examples"]) != n:
            raise InvalidInput(
                f"the record is of {int(state['n_examples'])} examples; this recorder has {n}."
            )
        self._rows = list(state["bits"].numpy())
        self._open = np.unpackbits(state["open"].numpy(), count=n).astype(bool)
        self._seen = np.unpackbits(state["seen"].numpy(), count=n).astype(bool)


@dataclass(frozen=True)
class RecordAccessibility:
    """Makes the recorders of an ensemble for :func:`firstlight.training.train_ensemble`.

    Parameters
    ----------
    inputs, labels : Tensor
        The examples to follow.
    name : str, default 'accessibility'
        Says in a store what is recorded.
    """

    inputs: Tensor
    labels: Tensor
    name: str = "accessibility"

    def __call__(self, steps_per_epoch: int) -> list[AccessibilityRecorder]:
        """Return one fresh recorder."""
        return [AccessibilityRecorder(self.inputs, self.labels, every=steps_per_epoch)]


class AccessibilityCallback:
    """A recorder in Lightning's terms; Lightning itself is not needed to import this.

    Parameters
    ----------
    recorder : AccessibilityRecorder
        Recorder of the examples to follow. It is read at the end of every training epoch.

    Notes
    -----
    Lightning asks its callbacks for many hooks; those not used here answer with doing nothing.
    """

    state_key = _legacy_state_key = "firstlight.AccessibilityCallback"

    def __init__(self, recorder: AccessibilityRecorder) -> None:
        self.recorder = recorder

    def on_train_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:
        """Record the epoch."""
        self.recorder.record(pl_module)

    def state_dict(self) -> dict[str, Tensor]:
        """What Lightning writes into its checkpoints."""
        return self.recorder.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Continue from a Lightning checkpoint."""
        self.recorder.load_state_dict(state_dict)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in ("setup", "teardown"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)


def history_of(records: Sequence[dict[str, Tensor]]) -> AccessibilityHistory:
    """Join the `state_dict` of the recorders of several networks, all of the same examples and epochs."""
    if not records:
        raise InvalidInput("`records` must hold at least one record; got none.")
    shapes = {(tuple(r["bits"].shape), int(r["n_examples"])) for r in records}
    if len(shapes) > 1:
        told = ", ".join(f"{s[0]} epochs of {n} examples" for s, n in sorted(shapes))
        raise InvalidInput(f"all records must have the same epochs and examples; got {told}.")
    return AccessibilityHistory(
        bits=torch.stack([r["bits"] for r in records]), n_examples=int(records[0]["n_examples"])
    )


def _hits(outputs: Tensor, labels: Tensor) -> np.ndarray:
    if not outputs.isfinite().all():
        raise InvalidInput("the network's outputs hold NaN or infinite values; its answers mean nothing.")
    scores = outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]
    chosen = scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).long()
    return np.asarray((chosen.cpu() == labels.cpu()).numpy())


def _means(rows: Tensor, n: int, *, axis: int) -> Tensor:
    spread = np.unpackbits(rows.numpy(), axis=-1, count=n)
    return torch.from_numpy(spread.mean(axis=axis, dtype=np.float64))
