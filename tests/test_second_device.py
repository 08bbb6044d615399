"""Runs the tests of the second device in a process of their own; tests/devices/conftest.py says why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_everything_that_computes_runs_on_a_second_device():
    here = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", str(here / "devices"), "-p", "no:xdist"],
        cwd=here.parent, env={**os.environ, "FIRSTLIGHT_SECOND_DEVICE": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert " passed" in ended.stdout
