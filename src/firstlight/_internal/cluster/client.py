"""The client's side of a cluster: data sent once, outcomes as they come, faults told in one line."""

import asyncio
import queue
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from firstlight._internal.cluster.shipping import FlatArray, Packed, pack
from firstlight._internal.cluster.task import Finished, Order, Runner, answer, work
from firstlight._internal.cluster.worker import difference, facts, stored_runs
from firstlight._internal.errors import ClusterProblem, InvalidInput

CONNECT_SECONDS = 10.0  # for a scheduler to be reached
SILENT_SECONDS = 120.0  # without an answer of a scheduler that was reached: a busy one may take long
RESULT_SECONDS = 10.0  # for an outcome to arrive before the cluster is looked at again
ANSWER_SECONDS = 60.0  # for a worker to import the package and say what it is
ALONE_SECONDS = 30.0  # without any worker before the tasks are given up
CHECK_SECONDS = 2.0  # between two looks at the scheduler
KEPT_BYTES = 4 << 30  # arrays of earlier calls that stay on the workers
ATTEMPTS = 3  # to send a task whose data was lost with a worker or a scheduler
SLOWEST = 1e6  # bytes a second below which a connection counts as broken


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
        listen: Callable[[int, float, str], None] | None = None,
    ) -> Iterator[tuple[int, Finished]]:
        """Give all tasks to the workers and yield what comes back, with the index of its task, as it comes.

        Parameters
        ----------
        function, tasks : callable or sequence
            What to apply to what.
        run : callable
            Applies the function to a task on the worker; returns the outcome and its CPU time.
        listen : callable, optional
            Told the index of a task, the fraction of it that is done, and a note, about once a second.
        """
        arrays: dict[str, FlatArray] = {}
        shared = pack(function, arrays)
        topic = f"firstlight-{uuid.uuid4().hex}" if listen is not None else ""
        sending = _Sending(self, Order(run, topic, facts(), stored_runs()), shared, arrays)
        with ExitStack() as stack:
            stack.callback(sending.cancel)
            if listen is not None:
                self.client.subscribe_topic(topic, lambda event: listen(*event[1]))
                stack.callback(self._hush, topic)
            for index, task in enumerate(tasks):
                sending.submit(index, pack(task, arrays))
            while sending.pending:
                self.check()
                yield from sending.arrived()

    def _hush(self, topic: str) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self.client.unsubscribe_topic(topic)

    def send(self, things: Mapping[str, FlatArray | Order | Packed]) -> dict[str, Any]:
        """Put named things on the workers, each once, and return their futures."""
        for name in [name for name in things if name in self._sent]:
            if self._sent[name][0].status != "finished":  # lost with the worker or the scheduler that held it
                del self._sent[name]
        new = {name: thing for name, thing in things.items() if name not in self._sent}
        if new:
            sizes = {n: t.data.nbytes if isinstance(t, FlatArray) else 0 for n, t in new.items()}
            self._make_room(sum(sizes.values()), keep=things)
            # a key of its own for each sending: a late release of a lost one must not touch its successor
            keys = {f"firstlight-{name[:16]}-{uuid.uuid4().hex[:8]}": name for name in new}
            futures = self._scattered({key: new[name] for key, name in keys.items()}, sum(sizes.values()))
            self._sent |= {name: (futures[key], sizes[name]) for key, name in keys.items()}
        return {name: self._sent[name][0] for name in things}

    def _scattered(self, things: dict[str, Any], size: int) -> dict[str, Any]:
        """Copy things to all workers that answer, so that they outlive any of them."""

        async def scatter() -> dict[str, Any]:
            sent = self.client.scatter(things, workers=workers, broadcast=True, hash=False)
            futures: dict[str, Any] = await asyncio.wait_for(sent, ANSWER_SECONDS + size / SLOWEST)
            return futures

        for attempt in range(ATTEMPTS):
            self.check(now=True)
            while not (listed := self._listed()):  # nobody to send to; the check gives up in time
                time.sleep(0.2)
                self.check(now=True)
            workers = [address for address in self.workers if address in listed] or None
            try:
                futures: dict[str, Any] = self.client.sync(scatter)
                return futures
            except (TimeoutError, OSError, ValueError, KeyError, asyncio.CancelledError) as error:
                if attempt == ATTEMPTS - 1:
                    raise ClusterProblem(
                        f"The workers at {self.address} took no data ({words(error)}). Look at their logs."
                    ) from error
                self.workers = self._compared()  # without those that no longer answer
        raise AssertionError("the loop returns or raises")

    def _make_room(self, size: int, keep: Collection[str]) -> None:
        """Release the oldest arrays that are not needed now, if the workers hold too many."""
        held = sum(kept for _, kept in self._sent.values())
        for name in list(self._sent):
            if held + size <= KEPT_BYTES:
                break
            if name not in keep:
                held -= self._sent.pop(name)[1]

    def _listed(self) -> dict[str, int]:
        """Addresses of the workers with their threads, as the scheduler knows them."""
        listed: dict[str, int] = self.client.sync(
            self.client.scheduler.ncores, callback_timeout=SILENT_SECONDS
        )
        return listed

    def _compared(self) -> tuple[str, ...]:
        """Ask every worker what it is: refuse other software, report other processors."""
        ours, listed, usable = facts(), self._listed(), list[str]()
        notes = Counter[str]()
        for worker, theirs in self._answers(list(listed)).items():
            if isinstance(theirs, TimeoutError | OSError):
                notes["did not answer; Dask gives its tasks to others if it stays silent"] += 1
                continue
            if isinstance(theirs, BaseException):
                raise InvalidInput(
                    f"Every worker must have firstlight installed; {worker} answers {words(theirs)}."
                )
            if other := difference(theirs, ours):
                raise InvalidInput(
                    f"Every worker must compute as this machine does; {worker} has {other}. "
                    "Install the same on all machines."
                )
            usable.append(worker)
            for name in sorted(name for name in ours if theirs.get(name) != ours[name]):
                notes[f"has {name} {theirs.get(name)} instead of {ours[name]}; last bits may differ"] += 1
            if listed[worker] != 1:
                notes[f"has {listed[worker]} threads, of which one is used; start it with --nthreads 1"] += 1
        for note, count in notes.items():
            print(f"Note on {count} of {len(listed)} workers: it {note}.", file=sys.stderr)
        return tuple(usable)

    def _answers(self, workers: list[str]) -> dict[str, Any]:
        """The facts of every worker, or what went wrong with it."""

        async def ask(worker: str) -> Any:
            answers = await asyncio.wait_for(self.client.run(answer, workers=[worker]), ANSWER_SECONDS)
            return answers[worker]

        async def ask_all() -> Any:
            return await asyncio.gather(*map(ask, workers), return_exceptions=True)

        return dict(zip(workers, self.client.sync(ask_all), strict=True))

    def check(self, *, now: bool = False) -> None:
        """Raise if the scheduler or all workers are gone; looks every other second unless `now`."""
        if not now and time.monotonic() - self._checked < CHECK_SECONDS:
            return
        self._checked = time.monotonic()
        while self.client.status == "connecting":  # Dask tries again for as long as it may take to connect
            time.sleep(0.1)
        try:
            if self.client.status != "running":
                raise TimeoutError
            workers = self._listed()
        except (TimeoutError, OSError) as error:
            if self.client.status == "connecting":
                return self.check(now=True)
            raise ClusterProblem(
                f"The Dask scheduler at {self.address} no longer answers. Finished runs are kept: start it again "
                "and repeat the command."
            ) from error
        if workers:
            self._alone_since = 0.0
            return None
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > ALONE_SECONDS:
            raise ClusterProblem(
                f"The scheduler at {self.address} has had no worker for {ALONE_SECONDS:g} s. Finished runs are kept: "
                "start workers and repeat the command."
            )
        return None


class _Sending:
    """Tasks of one call that are on their way."""

    def __init__(
        self, cluster: Cluster, order: Order, function: Packed, arrays: dict[str, FlatArray]
    ) -> None:
        self.cluster, self.order, self.function, self.arrays = cluster, order, function, arrays
        self.order_name = uuid.uuid4().hex
        self.pending: dict[str, tuple[Any, int, Packed]] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._attempts = Counter[int]()

    def submit(self, index: int, task: Packed) -> None:
        """Give one task to the cluster, and its data if the workers do not have them."""
        names = dict.fromkeys(self.function.arrays + task.arrays)
        things: dict[str, FlatArray | Order | Packed] = {name: self.arrays[name] for name in names}
        things |= {self.order_name: self.order, self.function.name: self.function}
        sent = self.cluster.send(things)
        arrays = {name: sent[name] for name in names}
        future = self.cluster.client.submit(
            work, sent[self.order_name], sent[self.function.name], task, index, arrays, pure=False
        )
        self.pending[future.key] = (future, index, task)
        future.add_done_callback(self._done.put)

    def arrived(self) -> Iterator[tuple[int, Finished]]:
        """Yield an outcome if one comes within a moment."""
        try:
            future = self._done.get(timeout=0.2)
        except queue.Empty:
            return
        if future.key not in self.pending:
            return
        _, index, task = self.pending[future.key]
        if future.status in ("cancelled", "lost"):
            del self.pending[future.key]
            self._repeat(index, task)
            return
        finished = self._result(future)
        if finished is not None:
            del self.pending[future.key]
            yield index, finished

    def _repeat(self, index: int, task: Packed) -> None:
        """Send a task once more whose data was lost."""
        self._attempts[index] += 1
        if self._attempts[index] >= ATTEMPTS:
            raise ClusterProblem(
                f"The cluster at {self.cluster.address} lost the same data {ATTEMPTS} times. Finished runs are kept: "
                "look at the workers' logs and repeat the command."
            )
        self.cluster.check(now=True)
        self.submit(index, task)

    def _result(self, future: Any) -> Finished | None:
        """Fetch an outcome; None if its worker was lost meanwhile and another one computes it again."""
        from distributed.scheduler import KilledWorker

        try:
            finished: Finished = future.result(timeout=RESULT_SECONDS)
            return finished
        except KilledWorker as error:
            raise ClusterProblem(
                "One task ended every worker that tried it. Often the workers have too little memory: give them more, "
                "or start fewer on each machine."
            ) from error
        except (TimeoutError, asyncio.CancelledError):
            future.add_done_callback(self._done.put)
            return None

    def cancel(self) -> None:
        """Take back the tasks that have not run yet."""
        if self.pending and self.cluster.client.status == "running":
            with suppress(Exception):  # the scheduler may be gone
                self.cluster.client.cancel([future for future, _, _ in self.pending.values()], force=True)


def words(error: BaseException) -> str:
    """The kind and the first line of an error."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
