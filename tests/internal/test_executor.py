import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import warm
from firstlight._internal import executor as parallel
from firstlight._internal import processes
from firstlight._internal.errors import InvalidInput, WorkerLost
from firstlight._internal.executor import cpu_seconds, default_jobs, map_tasks, on_cluster, report_fraction
from firstlight._internal.processes import repeating
from limits import COMMAND


def test_outcomes_come_in_the_order_of_the_tasks_from_other_processes():
    outcomes = map_tasks(lambda i: (i * i, os.getpid()), range(6), label="squares", n_jobs=2, show=False)
    assert [square for square, _ in outcomes] == [0, 1, 4, 9, 16, 25]
    assert os.getpid() not in {pid for _, pid in outcomes}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_runs_on_one_thread_and_the_caller_keeps_its_own(jobs):
    torch.set_num_threads(2)
    try:
        assert map_tasks(lambda _: torch.get_num_threads(), [0, 1], label="", n_jobs=jobs, show=False) == [
            1,
            1,
        ]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_task_reaches_the_caller_as_it_is(jobs):
    def fail(task):
        raise InvalidInput(f"task {task} is bad")

    with pytest.raises(InvalidInput, match="task 0 is bad"):
        map_tasks(fail, [0], label="", n_jobs=jobs, show=False)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_shown_bar_takes_reports_from_inside_a_task(jobs, capsys):
    def work(task):
        report_fraction(0.5)
        return task

    assert map_tasks(work, [1, 2], label="Halves", n_jobs=jobs, show=True) == [1, 2]
    assert parallel.executor.report is None


def test_cpu_seconds_include_the_work_of_others():
    before = cpu_seconds()
    map_tasks(lambda _: sum(i * i for i in range(2_000_000)), [0, 1], label="", n_jobs=2, show=False)
    assert cpu_seconds() - before > 0.05


def test_a_senseless_number_of_jobs_is_refused(monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_JOBS", "many")
    with pytest.raises(InvalidInput, match="at least 1; got 'many'"):
        default_jobs()


def test_no_tasks_give_no_outcomes():
    assert map_tasks(lambda t: t, [], label="", show=False) == []


def test_a_thread_that_has_no_memory_to_begin_keeps_nobody_waiting(monkeypatch):
    """It ends before it can say that it has begun."""
    for module in (processes, threading):
        for name in ("start_new_thread", "_start_new_thread"):
            monkeypatch.setattr(module, name, lambda *_: 0, raising=False)
    told = []
    with repeating(lambda: told.append(1), 0.01):
        pass
    assert told == []


def test_what_is_repeated_ends_with_its_block():
    told = []
    with repeating(lambda: told.append(1), 0.01):
        while len(told) < 3:
            time.sleep(0.01)
    count = len(told)
    time.sleep(0.1)
    assert len(told) == count


def test_a_cluster_without_dask_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(InvalidInput, match=r"pip install 'firstlight\[cluster\]'"),
        on_cluster("tcp://nowhere:1"),
    ):
        pass


def test_without_a_cluster_nothing_changes():
    with on_cluster(None):
        assert map_tasks(lambda t: t + 1, [1, 2], label="", n_jobs=1, show=False) == [2, 3]


def end_itself(task):
    if task:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_a_worker_that_is_killed_ends_the_map_with_advice_and_the_next_map_works():
    with pytest.raises(WorkerLost, match="FIRSTLIGHT_JOBS to less than 2"):
        map_tasks(end_itself, [0, 1, 2], label="", n_jobs=2, show=False)
    assert map_tasks(abs, [-1, -2], label="", n_jobs=2, show=False) == [1, 2]


ORPHANS = """
import os, sys, time
from firstlight._internal.executor import map_tasks
def work(task):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(3000)
map_tasks(work, [0, 1], label="", n_jobs=2, show=False)
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="processes have no parents there")
def test_workers_end_when_their_parent_is_killed():
    parent = warm.Popen(["-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=COMMAND)
    await_end(workers)


def await_end(workers):
    limit = time.monotonic() + COMMAND
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < limit, "a worker outlives its parent"
        time.sleep(0.1)


# a module that takes long to import in workers, as torch does on a busy machine
SLOW = """
import os, time
if os.environ["PARENT"] != str(os.getpid()):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(30000)
def work(task): pass
"""
STARTING = """
import os
os.environ["PARENT"] = str(os.getpid())
from firstlight._internal.executor import map_tasks
from slow import work
map_tasks(work, [0, 1], label="", n_jobs=2, show=False)
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="processes have no parents there")
def test_workers_that_still_import_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    parent = warm.Popen(
        ["-c", STARTING],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=COMMAND)
    await_end(workers)


STOPPING = """
import os, sys, time
from firstlight._internal.processes import Terminated, heed_termination, postponed_interrupts
from firstlight._internal.executor import map_tasks
from pathlib import Path
def work(task):
    with postponed_interrupts() as asked:
        os.write(1, b"%d\\n" % os.getpid())
        while asked() is None:
            time.sleep(0.01)
        time.sleep(1.5)  # saving takes longer than it takes the parent to pass the wish on
        Path(sys.argv[1], str(task)).touch()
        asked()()
heed_termination()
try:
    map_tasks(work, range(6), label="", n_jobs=2, show=False)
except KeyboardInterrupt as stop:
    sys.exit(143 if isinstance(stop, Terminated) else 130)
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize(
    ("number", "code", "to_all"),
    [
        (signal.SIGTERM, 143, False),
        (signal.SIGINT, 130, True),  # a terminal sends Ctrl-C to the workers too
        pytest.param(signal.SIGTERM, 143, True, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 130, False, marks=pytest.mark.long),
    ],
)
def test_workers_save_their_work_when_the_command_is_asked_to_stop(tmp_path, number, code, to_all):
    command = ["-c", STOPPING, str(tmp_path)]
    pipe = subprocess.PIPE
    parent = warm.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    if to_all:
        os.killpg(parent.pid, number)
    else:
        parent.send_signal(number)
    _, said = parent.communicate(timeout=COMMAND)
    assert (parent.returncode, said) == (code, "")
    assert sorted(os.listdir(tmp_path)) == ["0", "1"], "work was lost, or began after the signal"
    assert not any(is_running(pid) for pid in workers)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").exists() else True
