"""The second device, in a process of its own: ``FIRSTLIGHT_SECOND_DEVICE=1 pytest tests/devices``.

torch's autograd counts the devices of a process at its first backward pass and never again, and a device that was
registered once stays. So these tests are not collected with the others; `tests/test_second_device.py` runs them.
"""

import os
import sys

import pytest
import torch

from devices import second_device

if os.environ.get("FIRSTLIGHT_SECOND_DEVICE"):
    second_device.set_up()
else:
    collect_ignore_glob = ["test_*.py"]


def pytest_sessionfinish(session, exitstatus):
    """Remember how it went."""
    session.config.exit_code = int(exitstatus)


def pytest_unconfigure(config):
    """End at once: torch's thread for the device may outlive Python's interpreter, which aborts the process."""
    if os.environ.get("FIRSTLIGHT_SECOND_DEVICE"):
        sys.stdout.flush()
        os._exit(getattr(config, "exit_code", 1))


@pytest.fixture
def second(monkeypatch) -> torch.device:
    """A device that refuses CPU tensors."""
    monkeypatch.setattr(second_device.MODULE, "is_there", True)
    return torch.device(second_device.NAME, 0)


@pytest.fixture
def single(second, monkeypatch) -> torch.device:
    """The same without double precision, as Apple's devices."""
    monkeypatch.setattr(second_device.MODULE, "lacks_float64", True)
    return second
