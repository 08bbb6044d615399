import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import warm
from firstlight._internal.tensor_files import load_sealed
from limits import COMMAND

SCRIPT = Path(__file__).with_name("killable.py")
STEPS = "150"
HOLD = "140"  # where a run that is to be killed waits for it, however busy the machine and late the killer


def start(folder: Path) -> subprocess.Popen:
    process = warm.Popen([SCRIPT, folder, STEPS, HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    return process


def finish(folder: Path) -> str:
    # read as a whole: what `readline` reads ahead of its line, `communicate` would never see
    done = warm.run([SCRIPT, folder, STEPS], timeout=COMMAND)
    assert done.returncode == 0, done.stderr
    return done.stdout.removeprefix("started\n")


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A folder with a training that nobody interrupted, and what it printed."""
    folder = tmp_path_factory.mktemp("quiet")
    return folder, finish(folder)


def test_a_training_killed_at_any_moment_ends_with_the_same_bits(quiet, tmp_path):
    _, uninterrupted = quiet
    assert len(uninterrupted.strip()) == 64

    rng, folder = random.Random(0), tmp_path / "killed"
    for strike in range(4):
        process = start(folder)
        while strike and not list(folder.glob(".scratch/*/checkpoint.safetensors")):
            assert process.poll() is None, "the run ended before it wrote a checkpoint"
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=COMMAND) == -signal.SIGKILL, "the run ended before it could be killed"
    assert list(folder.glob(".scratch/*/checkpoint.safetensors"))

    assert finish(folder) == uninterrupted
    assert not list(folder.glob(".scratch/*/checkpoint*")), "scratch files remain after the run is stored"


def test_a_finished_training_is_fetched_and_not_done_again(quiet):
    folder, first = quiet
    stored = next(folder.glob("*/run.json"))
    written = stored.stat().st_mtime_ns
    assert finish(folder) == first
    assert stored.stat().st_mtime_ns == written


def test_a_training_that_is_asked_to_end_saves_its_last_step(quiet, tmp_path):
    _, uninterrupted = quiet
    command = [SCRIPT, tmp_path / "asked", STEPS, HOLD, "rarely"]
    process = warm.Popen(command, stdout=subprocess.PIPE, text=True)
    while process.stdout.readline() != "step 60\n":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=COMMAND) == 143
    (checkpoint,) = (tmp_path / "asked").glob(".scratch/*/checkpoint.safetensors")
    assert 60 <= load_sealed(checkpoint).tensors["loss"].numel() < 140
    assert finish(tmp_path / "asked") == uninterrupted
