import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A data folder of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(folder))
    return folder


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """An empty folder that is the whole search path but for the system's plain tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder
