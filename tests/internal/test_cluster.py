"""A real scheduler and real workers on the loopback interface: the same bits, data sent once, faults in one line."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import distributed
import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file

import warm
from firstlight._internal import executor as parallel
from firstlight._internal.cluster import cluster as cluster_client
from firstlight._internal.cluster.cluster_worker import Call, assigned, facts, is_worker, work
from firstlight._internal.cluster.packed_arrays import Packed, pack
from firstlight._internal.errors import ClusterProblem, DataUnavailable, InvalidInput
from firstlight._internal.executor import default_jobs, map_tasks, on_cluster, report_fraction
from firstlight._internal.store import Store
from firstlight.cli.main import app
from firstlight.data import ImageData, load_splits
from firstlight.data.fetching.packages import run_watched
from firstlight.estimators import ConvRFMClassifier
from firstlight.kernels import ConvKernel, TiledGram
from firstlight.models import ModelSpec
from firstlight.training import Recipe, train_ensemble
from limits import COMMAND
from machines import Machines, end, wait_until


def command(*words: str, **variables: str) -> subprocess.CompletedProcess:
    """Run `firstlight` as a user does."""
    return warm.run(["-m", "firstlight", *words], timeout=COMMAND, env={**os.environ, **variables})


@pytest.fixture(autouse=True, scope="module")
def _patience():
    """A busy machine is slow, not broken."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CONNECT_SECONDS", "SILENT_SECONDS", "ANSWER_SECONDS", "ALONE_SECONDS"):
            patch.setattr(cluster_client, name, COMMAND)
        yield


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    started = Machines(tmp_path_factory.mktemp("cluster"))
    try:
        for _ in range(2):
            started.add_worker()
        with on_cluster(started.address):
            parallel.executor.cluster.client.wait_for_workers(2, timeout=COMMAND)
        yield started
    finally:
        started.close()


@contextmanager
def own_machines(folder: Path):
    """A cluster of one worker for a test that breaks it."""
    started = Machines(folder)
    try:
        started.add_worker("--no-nanny")
        yield started
    finally:
        started.close()


def small_images(n: int = 60) -> ImageData:
    generator = torch.Generator().manual_seed(0)
    return ImageData(
        x=torch.rand(n, 1, 8, 8, generator=generator),
        y=torch.randint(0, 2, (n,), generator=generator),
        classes=("zero", "one"),
        meta={"name": "small"},
    )


def ensemble(store: Store | None = None):
    spec = ModelSpec(name="small", classes=2, shape=(1, 8, 8))
    recipe = Recipe(lr=0.05, batch_size=20, epochs=2)
    return train_ensemble(spec, 2, small_images(), recipe, store=store, n_jobs=1, show=False)


# ---------------------------------------------------------------- the same outcomes


def test_outcomes_come_in_order_from_all_workers_with_one_thread_each(machines, tmp_path):
    def task(i):
        # on a busy machine one worker could finish all tasks before the other has begun: wait for each other
        (tmp_path / str(os.getpid())).touch()
        limit = time.monotonic() + COMMAND
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < limit:
            time.sleep(0.05)
        return i * i, os.getpid(), torch.get_num_threads(), default_jobs()

    with on_cluster(machines.address) as workers:
        outcomes = map_tasks(task, range(40), label="", show=False)
    assert workers == 2
    assert [outcome[0] for outcome in outcomes] == [i * i for i in range(40)]
    assert len({outcome[1] for outcome in outcomes} - {os.getpid()}) == 2
    assert {outcome[2:] for outcome in outcomes} == {(1, 1)}


def test_networks_trained_on_a_cluster_have_the_bits_of_those_trained_here(machines):
    here = ensemble()
    with on_cluster(str(machines.file)):
        there = ensemble()
    for one, other in zip(here, there, strict=True):
        assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


@pytest.mark.long
def test_a_kernel_machine_fitted_on_a_cluster_has_the_bits_of_one_fitted_here(machines):
    data = small_images(200)
    machine = ConvRFMClassifier(depth=2, rounds=1, patience=None)
    here = machine.fit(data.x, data.y.numpy())
    outputs = here.decision_function(data.x)
    with on_cluster(machines.address):
        there = ConvRFMClassifier(**machine.get_params()).fit(data.x, data.y.numpy())
        assert (there.decision_function(data.x) == outputs).all()
        sent = {size for _, size in parallel.executor.cluster._sent.values()}
    assert torch.equal(here.metric_, there.metric_)
    assert torch.equal(here.dual_coef_, there.dual_coef_)
    assert sent  # tiles and gradients went there


@pytest.mark.long
def test_tiles_on_disk_are_filled_and_solved_by_workers_with_the_same_bits(machines, tmp_path):
    x = small_images(200).x
    targets = torch.nn.functional.one_hot(small_images(200).y, 2).double()
    solutions = []
    for address in (None, machines.address):
        with on_cluster(address):
            tiles = TiledGram.of(
                x, kernel=ConvKernel(depth=2), folder=tmp_path / str(address), side=64, n_jobs=1
            )
            assert tiles._is_shared() == (address is not None)
            solutions.append(tiles.solve(targets, 1e-2, rank=20))
    assert torch.equal(*solutions)


@pytest.mark.long
def test_local_workers_listen_to_this_machine_only_and_end_with_the_block():
    with on_cluster("local:1") as workers:
        (pid,) = map_tasks(lambda _: os.getpid(), [0], label="", show=False)
        assert (workers, pid != os.getpid()) == (1, True)
        for process in (psutil.Process(), psutil.Process(pid)):
            heard = [c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
            assert heard
            assert set(heard) == {"127.0.0.1"}
    wait_until(lambda: not Path(f"/proc/{pid}").exists() if Path("/proc").exists() else True)
    assert parallel.executor.cluster is None


def test_a_task_may_map_tasks_itself(machines):
    def nested(i):
        return sum(map_tasks(lambda j: i + j, [1, 2], label="", show=False))

    with on_cluster(machines.address):
        assert map_tasks(nested, [10, 20], label="", show=False) == [23, 43]


def test_an_error_in_a_task_reaches_the_caller_as_it_is(machines):
    def fail(task):
        raise InvalidInput(f"task {task} is bad")

    with on_cluster(machines.address), pytest.raises(InvalidInput, match="task 0 is bad"):
        map_tasks(fail, [0], label="", show=False)


def test_a_shown_bar_hears_of_tasks_that_are_under_way(machines):
    def task(i):
        report_fraction(0.5, note="halfway")
        time.sleep(0.5)
        return i

    heard = []
    with on_cluster(machines.address):
        cluster = parallel.executor.cluster
        finished = cluster.run(task, [7], run=parallel._run_timed, listen=lambda *event: heard.append(event))
        assert [(index, done.outcome) for index, done in finished] == [(0, 7)]
        assert map_tasks(task, [8], label="Halves", show=True) == [8]
    assert (0, 0.5, "halfway") in heard


@pytest.mark.long
def test_the_command_trains_an_ensemble_on_a_cluster_with_the_bits_of_the_library(machines, tmp_path):
    words = ["train", "--n", "40", "--epochs", "1", "--networks", "2", "--seed", "5"]
    target = tmp_path / "net.safetensors"
    done = command(*words, "--output", str(target), "--cluster", machines.address)
    assert (done.returncode, done.stdout.count("Wrote")) == (0, 2), done.stderr
    images, _ = load_splits("photos", n=40, seed=5)
    spec = ModelSpec(name="small", classes=images.n_classes, shape=images.shape)
    recipe = Recipe(lr=0.1, batch_size=32, epochs=1, seed=5)
    for trained in train_ensemble(spec, 2, images, recipe, n_jobs=1, show=False):
        written = load_file(tmp_path / f"net-{trained.seed}.safetensors")
        assert written.keys() == trained.weights.keys()
        assert all(torch.equal(written[name], trained.weights[name]) for name in written)


def test_the_command_refuses_a_bad_address_in_one_line(tmp_path):
    done = command(
        "train", "--n", "40", "--cluster", "nowhere", "--output", str(tmp_path / "net.safetensors")
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "firstlight: --cluster must be the address of a Dask scheduler"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["train", "tour", "identity", "rfm"])
def test_every_command_that_runs_tasks_takes_a_cluster(name):
    arguments = app[name].assemble_argument_collection()
    assert "--cluster" in {flag for argument in arguments for flag in argument.names}


# ---------------------------------------------------------------- data once


def test_images_are_sent_once_however_many_tasks_and_calls_need_them(machines):
    images = torch.rand(300, 1, 32, 32)

    with on_cluster(machines.address):
        for factor in (1, 2, 3):
            sums = map_tasks(lambda i: float(factor * images[i].sum()), range(6), label="", show=False)
            assert sums == [float(factor * images[i].sum()) for i in range(6)]
        sizes = [size for _, size in parallel.executor.cluster._sent.values()]
    assert [size for size in sizes if size] == [images.nbytes]


def test_packed_arrays_come_back_with_their_layout_and_equal_ones_are_packed_once():
    straight = torch.rand(2, 64, 64, 64)
    channels_last = straight.contiguous(memory_format=torch.channels_last)
    arrays: dict[str, np.ndarray] = {}
    packed = pack((straight, channels_last, straight.numpy(), straight.clone(), straight), arrays)
    assert len(arrays) == 2  # the array of NumPy has the bytes of the first tensor
    assert len(packed.body) < 2000
    one, other, array, equal, same = packed.unpack(arrays)
    assert torch.equal(one, straight)
    assert torch.equal(other, straight)
    assert other.stride() == channels_last.stride()
    assert (array == straight.numpy()).all()
    assert equal is same is one
    one += 1
    assert torch.equal(packed.unpack(arrays)[0], straight)


def test_a_part_of_a_tensor_is_packed_without_the_rest():
    whole = torch.rand(100, 1024)
    arrays: dict[str, np.ndarray] = {}
    packed = pack(whole[:80], arrays)
    assert [array.nbytes for array in arrays.values()] == [80 * 4096]
    assert torch.equal(packed.unpack(arrays), whole[:80])
    gaps = pack(whole[:, :800], arrays)
    assert len(arrays) == 1
    assert torch.equal(gaps.unpack({}), whole[:, :800])


def test_a_worker_fetches_nothing_by_itself_unless_asked(tmp_path, monkeypatch):
    fetch = [sys.executable, "-c", "pass"]
    with assigned():
        with pytest.raises(DataUnavailable, match="fetch nothing by themselves"):
            run_watched(fetch, folder=tmp_path, label="", total=None)
        monkeypatch.setenv("FIRSTLIGHT_WORKERS_FETCH", "yes")
        run_watched(fetch, folder=tmp_path, label="", total=None)


# ---------------------------------------------------------------- results where the client finds them


def test_runs_made_on_private_disks_are_stored_at_the_client_and_not_made_twice(
    machines, monkeypatch, tmp_path
):
    with on_cluster(machines.address):
        first = ensemble(Store())
    assert len(Store().ids()) == 2
    for id in Store().ids():
        assert torch.is_tensor(next(iter(Store().load(id).result.weights.values())))
        for name in ("run.json", "arrays.safetensors"):
            there, here = (root / id / name for root in (machines.runs, Store().root))
            assert there.read_bytes() == here.read_bytes()

    # the workers lose theirs: the client's are used, and nothing is trained
    for id in Store().ids():
        (machines.runs / id).rename(tmp_path / id)
    with on_cluster(machines.address):
        again = ensemble(Store())
    assert not [path for path in machines.runs.iterdir() if path.name in Store().ids()]
    assert all(
        torch.equal(a.weights[n], b.weights[n]) for a, b in zip(first, again, strict=True) for n in a.weights
    )

    # a client that was killed before it heard of them gets the workers' runs as they are
    kept = Store().ids()
    for id in kept:
        (tmp_path / id).rename(machines.runs / id)
    written = {id: (machines.runs / id / "run.json").read_bytes() for id in kept}
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(tmp_path / "fresh"))
    with on_cluster(machines.address):
        ensemble(Store())
    assert {id: (tmp_path / "fresh" / id / "run.json").read_bytes() for id in kept} == written


# ---------------------------------------------------------------- which workers


@pytest.mark.parametrize("fact", ["torch", "firstlight", "code", "python"])
def test_a_worker_with_other_software_is_refused(machines, monkeypatch, fact):
    monkeypatch.setitem(facts(), fact, "0.0")  # kept by the process: those of the workers stay
    with (
        pytest.raises(InvalidInput, match=r"has .* instead of 0\.0\. Install the same"),
        on_cluster(machines.address),
    ):
        pass


def test_a_worker_with_another_processor_is_reported_in_one_line(machines, monkeypatch, capsys):
    monkeypatch.setitem(facts(), "processor", "abacus")
    with on_cluster(machines.address):
        pass
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "instead of abacus; last bits may differ" in said[0]


@pytest.mark.long
def test_a_worker_that_joins_later_is_compared_too():
    with pytest.raises(ClusterProblem, match=r"A worker has torch .* instead of 0\.0"):
        work({**facts(), "torch": "0.0"}, pack(len, {}), pack("word", {}), 0, {})


def test_threads_of_one_worker_take_turns():
    inside, most = [], []

    def task(i):
        inside.append(i)
        most.append(len(inside))
        time.sleep(0.02)
        inside.remove(i)

    class Same(Packed):
        def unpack(self, arrays):
            return Call(task, parallel._run_timed, "", frozenset())

    threads = [
        threading.Thread(target=work, args=(facts(), Same(b"", ()), pack(i, {}), i, {})) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]
    assert not is_worker()


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    "address", ["host:8786", "local:0", "local:two", "tcp://host", "/no/such/file", "http://a:1"]
)
def test_an_address_of_no_known_form_is_refused(address):
    with pytest.raises(InvalidInput, match=r"`cluster` must be the address .* got "), on_cluster(address):
        pass


def test_a_file_that_is_no_scheduler_file_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidInput, match="has no address"), on_cluster(str(tmp_path / "other.json")):
        pass


def test_a_scheduler_that_does_not_answer_is_reported_in_one_line(monkeypatch, capfd):
    monkeypatch.setattr(cluster_client, "CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(InvalidInput, match=r"none answers at 'tcp://127\.0\.0\.1:1'"),
        on_cluster("tcp://127.0.0.1:1"),
    ):
        pass
    gc.collect()
    assert capfd.readouterr().err == ""


def test_an_encrypted_address_without_certificates_is_refused_in_one_line():
    with pytest.raises(InvalidInput, match="needs certificates"), on_cluster("tls://127.0.0.1:1"):
        pass


@pytest.mark.long
def test_the_outcomes_are_the_same_after_a_worker_was_killed(machines, tmp_path):
    images, mark = torch.rand(300, 1, 32, 32), str(tmp_path / "killed")

    def task(i):
        if i == 3 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        return float(images[i].sum())

    with on_cluster(machines.address):
        sums = map_tasks(task, range(12), label="", show=False)
        # Dask starts another: whichever test comes next finds two again
        parallel.executor.cluster.client.wait_for_workers(2, timeout=COMMAND)
    assert os.path.exists(mark)
    assert sums == [float(images[i].sum()) for i in range(12)]


def test_an_outcome_whose_connection_closes_on_the_way_is_asked_for_again(machines, monkeypatch):
    """As when the scheduler is killed just then; the traceback of Dask came through."""
    result, failures = distributed.Future.result, [distributed.comm.CommClosedError("Stream is closed")]

    def closing_once(future, timeout=None):
        if failures:
            raise failures.pop()
        return result(future, timeout=timeout)

    monkeypatch.setattr(distributed.Future, "result", closing_once)
    with on_cluster(machines.address):
        assert map_tasks(lambda i: i * i, range(3), label="", show=False) == [0, 1, 4]
    assert failures == []


def test_few_tasks_begin_before_earlier_outcomes_were_taken(machines, tmp_path):
    """What waits on the workers is lost with this process."""

    def task(i):
        (tmp_path / str(i)).touch()
        return i

    with on_cluster(machines.address) as workers:
        arriving = parallel.finished_tasks(task, range(40), label="", show=False)
        next(arriving)
        time.sleep(2)  # long enough for all of them
        assert 1 <= len(list(tmp_path.iterdir())) <= 1 + 2 * workers
        assert len([*arriving]) == 39


def break_after_the_first_task(address: str, break_it) -> None:
    with on_cluster(address):
        for _ in parallel.finished_tasks(lambda i: time.sleep(0.2), range(50), label="", show=False):
            break_it()


@pytest.mark.long
def test_a_killed_scheduler_ends_in_one_line(tmp_path, capfd):
    def kill():
        parallel.executor.cluster.client._timeout = 1.0  # for which Dask's client tries to connect again
        end(lost.scheduler)

    with (
        own_machines(tmp_path) as lost,
        pytest.raises(ClusterProblem, match=r"no longer answers\. Finished runs are kept") as raised,
    ):
        break_after_the_first_task(lost.address, kill)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr().err == ""


@pytest.mark.long
def test_tasks_without_any_worker_left_end_in_one_line(tmp_path, monkeypatch):
    with own_machines(tmp_path) as lost:

        def end_worker():
            monkeypatch.setattr(cluster_client, "ALONE_SECONDS", 1.0)
            end(lost.processes[1])

        with pytest.raises(ClusterProblem, match="has had no worker for 1 s"):
            break_after_the_first_task(lost.address, end_worker)


@pytest.mark.long
def test_a_scheduler_that_was_started_again_gets_the_remaining_tasks(tmp_path):
    images = torch.rand(300, 1, 32, 32)
    with own_machines(tmp_path) as lost, on_cluster(lost.address):
        sums: dict[int, float] = {}
        task = lambda i: (time.sleep(0.2), float(images[i].sum()))[1]  # noqa: E731
        for index, value in parallel.finished_tasks(task, range(8), label="", show=False):
            if not sums:
                end(lost.scheduler)
                port = lost.address.rpartition(":")[2]
                lost.add_scheduler(port=port)
                lost.add_worker("--no-nanny")
            sums[index] = value
    assert sums == {i: float(images[i].sum()) for i in range(8)}
