"""One thread, reproducible draws, nothing of the user's: what every test may rely on."""

import itertools
import os
import signal

os.environ.setdefault("FIRSTLIGHT_JOBS", "1")
# SciPy reads this once, when it is imported; without it scikit-learn skips its checks of array inputs
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import hypothesis
import pytest
import torch

from browser import _driver, artefacts, browser  # noqa: F401, fixtures

# the same examples for everybody, so that a red test is red on the next machine as well; `make test-drawn` draws others
hypothesis.settings.register_profile("same", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.register_profile("drawn", max_examples=200, deadline=None)
hypothesis.settings.load_profile("same")

# shells let background jobs ignore Ctrl-C, and the commands that tests stop by it would inherit that
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(int(os.environ.get("FIRSTLIGHT_TEST_THREADS", "1")))


@pytest.fixture(scope="session")
def _runs_folders(tmp_path_factory):
    """Names of folders; pytest itself would look through all earlier ones to find the next."""
    base = tmp_path_factory.mktemp("runs")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_runs_folder(_runs_folders, monkeypatch):
    """No test reads or writes the user's runs."""
    folder = next(_runs_folders)
    folder.mkdir()
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(folder))


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder that all processes of this run share, so that what one of them has computed serves the others."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture
def small_copies(monkeypatch):
    """Let a few images pass for a whole data set: how files are read does not depend on how many there are."""
    monkeypatch.setattr("firstlight.data.fetched._demand_complete", lambda entry, splits: None)


@pytest.fixture
def float64():
    """Work in double precision inside one test."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
