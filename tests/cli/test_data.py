import pytest

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight.cli.data import app
from reference.data_files import write_mnist_like


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")


def run(*words):
    app(list(words), result_action="return_value")


def cells(said):
    """Rows of the printed tables."""
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in said.splitlines() if "│" in line
    ]


def test_list_shows_every_data_set_and_the_cache(capsys, tmp_path):
    run("list")
    said = capsys.readouterr().out
    rows = {row[0]: row for row in cells(said)}
    assert "3x32x32" in rows["cifar10"]
    assert rows["cifar10"][-1] == "no"
    assert rows["photos"][-1] == "always"
    assert rows["small_mammals"][2] == "5"
    assert str(tmp_path / "cache") in said


@pytest.mark.usefixtures("small_copies")
def test_get_imports_a_copy_info_describes_it_and_rm_removes_it(capsys, tmp_path):
    write_mnist_like(tmp_path / "copy")
    run("get", "mnist", "--from", str(tmp_path / "copy"))
    assert "20 train, 10 test images" in capsys.readouterr().out
    run("info", "mnist", "--split", "test")
    said = capsys.readouterr().out
    assert ["images", "10"] in cells(said)
    assert ["shape", "1x28x28"] in cells(said)
    assert "CC BY-SA" in said
    run("rm", "mnist")
    assert "Removed mnist" in capsys.readouterr().out
    run("rm", "mnist")
    assert "not in the cache" in capsys.readouterr().out


def test_info_of_photos_prints_mean_spread_and_counts(capsys):
    run("info", "photos:cat/rocket", "--split", "test")
    said = capsys.readouterr().out
    rows = cells(said)
    assert all(row in rows for row in (["images", "500"], ["cat", "250"], ["rocket", "250"]))
    assert {"mean", "std"} <= {row[0] for row in rows}


def test_get_of_the_embedded_set_says_that_nothing_is_needed(capsys):
    run("get", "photos")
    assert "needs no fetching" in capsys.readouterr().out


def test_errors_are_left_to_the_caller():
    with pytest.raises(InvalidInput, match="Did you mean 'mnist'"):
        run("get", "mnits")
    with pytest.raises(DataUnavailable, match="--from PATH"):
        run("get", "celeba")
