"""Kernel machines on a cluster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

from firstlight.core.parallel import on_cluster
from firstlight.estimators import machine
from firstlight.kernels import large, rfm
from firstlight.kernels.spread import spread_agop, spread_gram

# Recorded results are named after the code that computes them, so where it runs must not be written into that code:
# the names it calls are exchanged from outside, for as long as a cluster takes the tasks.
_EXCHANGED = (
    (large, "gram", spread_gram),
    (rfm, "gram", spread_gram),
    (rfm, "kernel_agop", spread_agop),
    (machine, "gram", spread_gram),
)


@contextmanager
def kernels_on_cluster(address: str | None) -> Iterator[int | None]:
    """Do as :func:`firstlight.core.parallel.on_cluster`, and send tiles and gradients of kernel machines there too.

    Parameters
    ----------
    address : str or None
        As for :func:`firstlight.core.parallel.on_cluster`.
    """
    with ExitStack() as stack:
        cores = stack.enter_context(on_cluster(address))
        if address is not None:
            for module, name, function in _EXCHANGED:
                stack.enter_context(_exchanged(module, name, function))
        yield cores


@contextmanager
def _exchanged(module: ModuleType, name: str, function: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)
