"""A Dask cluster from the client's side: data sent once, outcomes as they come, faults told in one line."""

import asyncio
import logging
import queue
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np

from firstlight._internal.cluster.cluster_worker import (
    Call,
    Finished,
    Runner,
    difference,
    facts,
    stored_runs,
    work,
)
from firstlight._internal.cluster.packed_arrays import Packed, pack
from firstlight._internal.errors import ClusterProblem, InvalidInput
from firstlight._internal.optional import optional_module
from firstlight._internal.processes import postponed_interrupts
from firstlight._internal.untrusted_files import read_json, reason_of

CONNECT_SECONDS = 10.0  # for a scheduler to be reached
SILENT_SECONDS = 120.0  # without an answer of a scheduler that was reached: a busy one may take long
RESULT_SECONDS = 10.0  # for an outcome to arrive before the cluster is looked at again
ANSWER_SECONDS = 60.0  # for a worker to import the package and say what it is
ALONE_SECONDS = 30.0  # without any worker before the tasks are given up
CHECK_SECONDS = 2.0  # between two looks at the scheduler
KEPT_BYTES = 4 << 30  # arrays of earlier calls that stay on the workers
ATTEMPTS = 3  # to send a task whose data was lost with a worker or a scheduler
SLOWEST = 1e6  # bytes a second below which a connection counts as broken


@contextmanager
def connected(address: str) -> Iterator["Cluster"]:
    """Connect to a cluster for the block.

    Parameters
    ----------
    address : str
        ``tcp://host:port`` or ``tls://host:port`` of a Dask scheduler, the path of a scheduler file, or ``local:N``
        for N worker processes of this machine that end with the block.
    """
    distributed = optional_module("distributed", extra="cluster", purpose="A cluster")
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        target = _target(address, stack, distributed)
        seconds, alone = CONNECT_SECONDS, ALONE_SECONDS
        if not isinstance(target, str):  # started a moment ago on this machine: it is there, however busy
            seconds = alone = SILENT_SECONDS
        try:
            client = distributed.Client(target, timeout=seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"`cluster` must name a running Dask scheduler; none answers at {address!r} ({reason_of(error)})."
            ) from error
        stack.callback(_unless_gone, client.close, timeout=2)
        try:
            client.wait_for_workers(1, timeout=alone)
        except TimeoutError as error:
            raise InvalidInput(
                f"`cluster` must have workers; {address!r} has had none for {alone:g} s. Start some with "
                "`dask worker ADDRESS --nthreads 1`."
            ) from error
        yield Cluster(client, address)


class Cluster:
    """A connection to a Dask scheduler, and the arrays that its workers hold already.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    address : str
        What the user called it, for messages.
    """

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address
        self.workers = self._compared()
        self._sent: dict[str, tuple[Any, int]] = {}  # future and size by name of the content
        self._checked, self._alone_since = time.monotonic(), 0.0

    @property
    def cores(self) -> int:
        """Tasks that run side by side: one for each worker process."""
        return max(1, len(self.workers))

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        *,
        run: Runner,
        listen: Callable[[int, float, str], None],
    ) -> Iterator[tuple[int, Finished]]:
        """Give all tasks to the workers and yield what comes back, with the index of its task, as it comes.

        Parameters
        ----------
        function, tasks : callable or sequence
            What to apply to what.
        run : callable
            Applies the function to a task on the worker; returns the outcome and its CPU time.
        listen : callable
            Told the index of a task, the fraction of it that is done, and a note, about once a second.
        """
        sending = _Sending(self, Call(function, run, f"firstlight-{uuid.uuid4().hex}", stored_runs()))
        with ExitStack() as stack:
            stack.callback(sending.cancel)
            self.client.subscribe_topic(sending.name, lambda event: listen(*event[1]))
            stack.callback(_unless_gone, self.client.unsubscribe_topic, sending.name)
            waiting, n_workers = enumerate(tasks), self.cores
            while True:
                # outcomes beyond these would wait on the workers, and be lost with this process
                for index, task in islice(waiting, max(0, 2 * n_workers - len(sending.pending))):
                    sending.submit(index, pack(task, sending.arrays))
                if not sending.pending:
                    return
                n_workers = len(self.check()) or n_workers
                yield from sending.arrived()

    def send(self, things: Mapping[str, np.ndarray | Packed]) -> dict[str, Any]:
        """Put named things on the workers, each once, and return their futures."""
        for name, thing in things.items():
            if name not in self._sent or self._sent[name][0].status != "finished":  # lost with who held it
                size = getattr(thing, "nbytes", 0)
                self._make_room(size, keep=things)
                self._sent[name] = (self._scattered(name, thing, size), size)
        return {name: self._sent[name][0] for name in things}

    def _scattered(self, name: str, thing: np.ndarray | Packed, size: int) -> Any:
        """Copy a thing to all workers that answer, so that it outlives any of them."""

        async def scatter() -> Any:
            # a key of its own for each sending: a late release of a lost one must not touch its successor
            key = f"firstlight-{name[:16]}-{uuid.uuid4().hex[:8]}"
            sent = self.client.scatter({key: thing}, workers=workers, broadcast=True, hash=False)
            return (await asyncio.wait_for(sent, ANSWER_SECONDS + size / SLOWEST))[key]

        for _ in range(ATTEMPTS):
            while not (listed := self.check(now=True)):  # nobody to send to; the check gives up in time
                time.sleep(0.2)
            workers = [address for address in self.workers if address in listed] or None
            with suppress(TimeoutError, OSError, ValueError, KeyError, asyncio.CancelledError):
                return self.client.sync(scatter)
            self.workers = self._compared()  # without those that no longer answer
        raise _given_up(f"The workers at {self.address} took no data, {ATTEMPTS} times", "look at their logs")

    def _make_room(self, size: int, keep: Collection[str]) -> None:
        """Release the oldest arrays that are not needed now, if the workers hold too many."""
        held = size + sum(kept for _, kept in self._sent.values())
        for name in [name for name in self._sent if name not in keep]:
            if held > KEPT_BYTES:
                held -= self._sent.pop(name)[1]

    def _threads(self) -> dict[str, int]:
        """Addresses of the workers with their threads, as the scheduler knows them."""
        ask = self.client.scheduler.ncores
        threads: dict[str, int] = self.client.sync(ask, callback_timeout=SILENT_SECONDS)
        return threads

    def _compared(self) -> tuple[str, ...]:
        """Ask every worker what it is: refuse other software, report other processors."""
        ours, threads, usable, notes = facts(), self._threads(), list[str](), Counter[str]()

        async def ask(worker: str) -> Any:
            return (await asyncio.wait_for(self.client.run(facts, workers=[worker]), ANSWER_SECONDS))[worker]

        async def ask_all() -> Any:
            return await asyncio.gather(*map(ask, threads), return_exceptions=True)

        for worker, theirs in zip(threads, self.client.sync(ask_all), strict=True):
            if isinstance(theirs, TimeoutError | OSError):
                notes["did not answer; Dask gives its tasks to others if it stays silent"] += 1
                continue
            if isinstance(theirs, BaseException):
                raise InvalidInput(f"Every worker must have firstlight; {worker} says {reason_of(theirs)}.")
            if other := difference(theirs, ours):
                raise InvalidInput(
                    f"Every worker must compute as this machine does; {worker} has {other}. "
                    "Install the same on all machines."
                )
            usable.append(worker)
            for name in sorted(name for name in ours if theirs.get(name) != ours[name]):
                notes[f"has {name} {theirs.get(name)} instead of {ours[name]}; last bits may differ"] += 1
            if (n := threads[worker]) != 1:
                notes[f"has {n} threads, of which one is used; start it with --nthreads 1"] += 1
        for note, count in notes.items():
            print(f"Note on {count} of {len(threads)} workers: it {note}.", file=sys.stderr)
        return tuple(usable)

    def check(self, *, now: bool = False) -> Collection[str]:
        """Raise if the scheduler or all workers are gone; return whom it saw. Looks every other second unless `now`."""
        if not now and time.monotonic() - self._checked < CHECK_SECONDS:
            return ()
        self._checked, workers = time.monotonic(), None
        while workers is None:
            while self.client.status == "connecting":  # Dask tries again for as long as it may take
                time.sleep(0.1)
            try:
                if self.client.status != "running":
                    raise TimeoutError
                workers = self._threads()
            except (TimeoutError, OSError) as error:
                if self.client.status != "connecting":
                    words = f"The Dask scheduler at {self.address} no longer answers"
                    raise _given_up(words, "start it again") from error
        self._alone_since = 0.0 if workers else self._alone_since or time.monotonic()
        if not workers and time.monotonic() - self._alone_since > ALONE_SECONDS:
            words = f"The scheduler at {self.address} has had no worker for {ALONE_SECONDS:g} s"
            raise _given_up(words, "start workers")
        return workers


class _Sending:
    """Tasks of one call that are on their way."""

    def __init__(self, cluster: Cluster, call: Call) -> None:
        self.cluster, self.name = cluster, call.topic
        self.arrays: dict[str, np.ndarray] = {}
        self.call = pack(call, self.arrays)
        self.pending: dict[str, tuple[Any, int, Packed]] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._attempts = Counter[int]()

    def submit(self, index: int, task: Packed) -> None:
        """Give one task to the cluster, and its data if the workers do not have them."""
        arrays = {name: self.arrays[name] for name in (*self.call.arrays, *task.arrays)}
        sent = self.cluster.send({**arrays, self.name: self.call})
        call = sent.pop(self.name)
        future = self.cluster.client.submit(work, facts(), call, task, index, sent, pure=False)
        self.pending[future.key] = (future, index, task)
        future.add_done_callback(self._done.put)

    def arrived(self) -> Iterator[tuple[int, Finished]]:
        """Yield an outcome if one comes within a moment; send a task once more whose data was lost."""
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        try:
            future = self._done.get(timeout=0.2)
            _, index, task = self.pending[future.key]
        except (queue.Empty, KeyError):  # none came, or one that was sent again
            return
        if future.status in ("cancelled", "lost"):
            del self.pending[future.key]
            self._attempts[index] += 1
            if self._attempts[index] >= ATTEMPTS:
                words = f"The cluster at {self.cluster.address} lost the same data {ATTEMPTS} times"
                raise _given_up(words, "look at the workers' logs")
            self.cluster.check(now=True)
            self.submit(index, task)
            return
        try:
            finished = future.result(timeout=RESULT_SECONDS)
        except KilledWorker as error:
            words = "One task ended every worker that tried it, as happens when memory runs out"
            raise _given_up(words, "start fewer workers on each machine") from error
        except (TimeoutError, CommClosedError, asyncio.CancelledError):
            # its worker was lost, and another one computes it again, or the scheduler was, which the next check tells
            future.add_done_callback(self._done.put)
            return
        del self.pending[future.key]
        yield index, finished

    def cancel(self) -> None:
        """Take back the tasks that have not run yet."""
        futures = [future for future, _, _ in self.pending.values()]
        if futures and self.cluster.client.status == "running":
            _unless_gone(self.cluster.client.cancel, futures, force=True)


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
    here = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with postponed_interrupts() as asked, _children_deaf_to_ctrl_c():
        cluster = distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, host="127.0.0.1", memory_limit=0, scheduler_kwargs=here,
            worker_dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL + 1,
        )  # fmt: skip
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
        if distributed.Security().get_connection_args("client")["ssl_context"] is None:
            raise ValueError("none is named")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"`cluster` at a tls:// address needs certificates that can be read ({reason_of(error)}): set "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log off the terminal: its troubles end in one line of ours."""
    ours = ("distributed", "tornado", "asyncio")
    names = {name for name in logging.root.manager.loggerDict if name.split(".")[0] in ours}.union(ours)
    levels = [(logger, logger.level) for logger in map(logging.getLogger, names)]
    for logger, _ in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels:
            logger.setLevel(level)


def _given_up(what: str, remedy: str) -> ClusterProblem:
    return ClusterProblem(f"{what}. Finished runs are kept: {remedy} and repeat the command.")


def _unless_gone(act: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Do what cleans up; the scheduler may be gone."""
    with suppress(Exception):
        act(*arguments, **options)
