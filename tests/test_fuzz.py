"""Two hundred damaged files and every lie; `make fuzz` reads two thousand, docs/reliability.md has the counts."""

from pathlib import Path

import pytest

import warm
from limits import COMMAND

pytestmark = pytest.mark.long


def test_damaged_and_hostile_files_are_refused_or_harmless():
    """In a process of its own, which has neither threads nor the limits of memory that the cases set."""
    command = ["-m", "fuzz", "--mutants", "200", "--jobs", "1"]
    done = warm.run(command, cwd=Path(__file__).parent, timeout=COMMAND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 mutants" in done.stdout
