"""Networks that were trained once, with their history: what the bank holds, how it is made, and how to load it."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.networks.bank import Network, load_network, network_names
    from firstlight.networks.definitions import KINDS, Definition, definition
    from firstlight.networks.training import check_network, train_network

__all__ = [
    "KINDS",
    "Definition",
    "Network",
    "check_network",
    "definition",
    "load_network",
    "network_names",
    "train_network",
]

lazy_exports(__name__)
