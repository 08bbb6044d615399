"""How a cluster is named, and the connection to it."""

import importlib
import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from firstlight._internal.cluster import client as cluster_client
from firstlight._internal.cluster.client import Cluster, words
from firstlight._internal.errors import InvalidInput
from firstlight._internal.interrupts import postponed_interrupts
from firstlight._internal.untrusted_files import read_json


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to a cluster for the block.

    Parameters
    ----------
    address : str
        ``tcp://host:port`` or ``tls://host:port`` of a Dask scheduler, the path of a scheduler file, or ``local:N``
        for N worker processes of this machine that end with the block.
    """
    distributed = _dask()
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        target = _target(address, stack, distributed)
        seconds, alone = cluster_client.CONNECT_SECONDS, cluster_client.ALONE_SECONDS
        if not isinstance(target, str):  # started a moment ago on this machine: it is there, however busy
            seconds = alone = cluster_client.SILENT_SECONDS
        try:
            client = distributed.Client(target, timeout=seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"`cluster` must name a running Dask scheduler; none answers at {address!r} ({words(error)})."
            ) from error
        stack.callback(_close, client)
        try:
            client.wait_for_workers(1, timeout=alone)
        except TimeoutError as error:
            raise InvalidInput(
                f"`cluster` must have workers; {address!r} has had none for {alone:g} s. Start some with "
                "`dask worker ADDRESS --nthreads 1`."
            ) from error
        yield Cluster(client, address)


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise InvalidInput("A cluster needs Dask: `pip install firstlight[cluster]`.") from error


def _target(address: str, stack: ExitStack, distributed: Any) -> Any:
    """What Dask's client connects to."""
    kind, _, rest = address.partition(":")
    if kind == "local" and rest.isdigit() and int(rest) > 0:
        return stack.enter_context(_local_cluster(int(rest), distributed))
    if kind in ("tcp", "tls") and rest.startswith("//") and rest.rpartition(":")[2].isdigit():
        if kind == "tls":
            _demand_certificates(distributed)
        return address
    if Path(address).is_file():
        described = read_json(Path(address))
        if isinstance(described, dict) and isinstance(described.get("address"), str):
            return described["address"]
        raise InvalidInput(f"`cluster` must name a scheduler file that Dask wrote; {address} has no address.")
    raise InvalidInput(
        "`cluster` must be the address of a Dask scheduler such as tcp://host:8786, the path of its scheduler file, "
        f"or local:N for N processes of this machine; got {address!r}."
    )


@contextmanager
def _local_cluster(n: int, distributed: Any) -> Iterator[Any]:
    """Start workers on this machine for the block; whoever asks to stop meanwhile is heard once they run.

    Dask cannot put away a cluster that has only begun to start: it would leave its errors on the terminal.
    """
    # without an address of their own Dask's status pages would listen on every network of the machine
    pages = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with postponed_interrupts() as asked, _children_deaf_to_ctrl_c():
        cluster = distributed.LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            memory_limit=0,
            scheduler_kwargs=pages,
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL + 1,
        )
    with cluster:
        if (stop := asked()) is not None:
            stop()
        yield cluster


@contextmanager
def _children_deaf_to_ctrl_c() -> Iterator[None]:
    """Let threads and processes that begin in the block ignore Ctrl-C: a terminal sends it to all, and we end them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # it would lift the block when Dask starts its first process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _demand_certificates(distributed: Any) -> None:
    """Ask for certificates before Dask does, whose client leaves a trail of errors without them."""
    try:
        context = distributed.Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise InvalidInput(f"`cluster` must have certificates that can be read ({words(error)}).") from error
    if context is None:
        raise InvalidInput(
            "`cluster` at a tls:// address needs certificates: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY."
        )


def _close(client: Any) -> None:
    with suppress(Exception):  # the scheduler may be gone
        client.close(timeout=2)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log off the terminal: its troubles end in one line of ours."""
    ours = ("distributed", "tornado", "asyncio")
    names = {name for name in logging.root.manager.loggerDict if name.split(".")[0] in ours}.union(ours)
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
