"""A sample of what `make crash` tries in full; docs/reliability.md has the counts."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import warm
from limits import COMMAND

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="calls are counted by a library for Linux"),
]
HERE = Path(__file__).parent


def run(*words):
    done = warm.run(["-m", *words], cwd=HERE, env={**os.environ, "PYTHONPATH": path()}, timeout=COMMAND)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def path():
    return os.pathsep.join(
        [str(HERE), str(HERE.parent / "src"), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
@pytest.mark.parametrize(
    ("words", "names"),
    [(("--sample", "6"), 14), (("--planted",), 1)],
    ids=["sample", "planted"],
)
def test_every_call_may_fail_or_be_the_last(words, names):
    said = run("crash.every_call", *words)
    assert said.count(" cases: ") == names


def test_a_lack_of_memory_is_told_in_one_line():
    assert " one line, " in run("crash.little_memory", "inspect")


def test_eight_at_once_disturb_nobody():
    assert " killed, " in run("crash.eight_at_once", "20", "0")
