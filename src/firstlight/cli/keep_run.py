"""Keep what a command measured as a run, so that `firstlight report` can write its page again."""

import hashlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import nn

R = TypeVar("R")


def measure_and_keep(what: str, config: dict[str, Any], measure: Callable[[], R], *, data: str = "") -> R:
    """Measure, store the result in place of an older one of the same settings, and say how to show it again.

    What was stored is never used instead of a measurement: a model may behave differently without a trace in its
    settings. A folder that cannot be written costs the stored run, not the page.

    Parameters
    ----------
    what : str
        Kind of the run, such as "inspect".
    config : dict of str to object
        Settings of the command, as plain values.
    measure : callable
        Returns the result.
    data : str, default ''
        Fingerprint of images and weights.
    """
    from firstlight._internal.errors import FirstlightError
    from firstlight._internal.executor import cpu_seconds
    from firstlight._internal.safe_text import visible
    from firstlight._internal.store.runs import RunSpec, Store

    wall, cpu = time.perf_counter(), cpu_seconds()
    result = measure()
    spec = RunSpec(what=what, config=config, data=data)
    try:
        store = Store()
        if spec in store:
            store.remove(spec.id)
        store.write(spec, result, wall_seconds=time.perf_counter() - wall, cpu_seconds=cpu_seconds() - cpu)
        print(f"`firstlight report {spec.id}` writes the page again.", file=sys.stderr)
    except FirstlightError as error:
        print(visible(f"firstlight: the run is not kept. {error}"), file=sys.stderr)
    return result


def fingerprint_of(models: "Iterable[nn.Module]") -> str:
    """Sixteen hexadecimal digits for the weights of some models."""
    import torch

    digest = hashlib.sha256()
    for model in models:
        for name, tensor in model.state_dict().items():
            if isinstance(tensor, torch.Tensor):
                digest.update(name.encode())
                digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
