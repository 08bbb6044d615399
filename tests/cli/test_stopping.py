"""A command that is asked to stop says so in one line, and the same command resumes."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from cyclopts import App

import warm
from firstlight.cli.main import run
from limits import COMMAND

# the first checkpoint at once, instead of after 20 seconds
PROGRAM = """
from firstlight.cli.main import main
from firstlight.training import loop
loop.CHECKPOINT_SECONDS = 0.1
main()
"""


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["train", "--n", "8"], "What was trained is kept; the same command resumes."),
        (["tour"], "Finished parts are kept; the same command resumes."),
        (["inspect", "x.pt"], "A first page that was written stays; the same command starts again."),
        (["compare"], "Nothing is kept; the same command starts again."),
    ],
)
def test_what_a_stopped_command_says_is_true_of_it(monkeypatch, capsys, words, kept):
    app = App(name="firstlight", suppress_keyboard_interrupt=False)

    @app.default
    def stopped(*words: str, n: int = 0):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["firstlight", *words])
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with pytest.raises(SystemExit):
            run(app)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(number, handler)
    assert capsys.readouterr().err == f"\nfirstlight: stopped. {kept}\n"


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_training_says_so_in_one_line_and_leaves_a_checkpoint(tmp_path, number, code):
    runs = tmp_path / "runs"
    command = ["-c", PROGRAM, "train", "--n", "64", "--epochs", "100000"]
    environment = {**os.environ, "FIRSTLIGHT_RUNS": str(runs)}
    process = warm.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list(runs.glob(".scratch/*/checkpoint*")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=COMMAND)
    assert process.returncode == code
    lines = [line for line in said.splitlines() if line and "training and" not in line]
    assert lines == ["firstlight: stopped. What was trained is kept; the same command resumes."]
    assert list(runs.glob(".scratch/*/checkpoint.safetensors"))
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_is_stopped_while_its_local_workers_start_says_so_in_one_line(tmp_path, number, code):
    words = ["train", "--n", "20", "--epochs", "100000", "--networks", "2", "--cluster", "local:1"]
    process = warm.Popen(
        ["-m", "firstlight", *words],
        cwd=tmp_path,
        env={**os.environ, "FIRSTLIGHT_RUNS": str(tmp_path / "runs")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watched = psutil.Process(process.pid)
    while not any(is_starting_worker(child) for child in watched.children()):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    if number == signal.SIGINT:  # a terminal sends it to all
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=COMMAND)
    assert process.returncode == code
    lines = [line for line in said.splitlines() if line and "training and" not in line]
    assert lines == ["firstlight: stopped. What was trained is kept; the same command resumes."]


def is_starting_worker(process):
    """Whether it is a worker that is importing Dask: the interpreter alone takes less memory."""
    try:
        return "spawn_main" in " ".join(process.cmdline()) and process.memory_info().rss > 40e6
    except psutil.Error:  # gone
        return False
