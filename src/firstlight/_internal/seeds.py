"""Randomness from names: the same words give the same numbers on every machine."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from firstlight._internal.devices import CPU, random_state, restore_random_state


def seed_from(*parts: str | int) -> int:
    """Derive a 63-bit seed from any words and numbers.

    Streams for different purposes ("order", "weights") stay independent of each other even when the
    user's seed is the same small number everywhere.

    Examples
    --------
    >>> seed_from("weights", 0) == seed_from("weights", 0)
    True
    >>> seed_from("weights", 0) == seed_from("order", 0)
    False
    """
    digest = hashlib.sha256("\x1f".join(f"{type(p).__name__}:{p}" for p in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator_from(*parts: str | int) -> torch.Generator:
    """Return a CPU generator seeded by :func:`seed_from`."""
    return torch.Generator().manual_seed(seed_from(*parts))


@contextmanager
def global_seed(*parts: str | int, device: torch.device = CPU) -> Iterator[None]:
    """Seed torch's global generators inside the block and restore the caller's state afterwards.

    Needed only for code that offers no `generator` argument: layer constructors and dropout. Dropout on another
    device draws from that device's generator, whose numbers are its own.
    """
    before = random_state(device)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_from(*parts))
            yield
    finally:
        restore_random_state(device, before)
