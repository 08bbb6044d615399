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


def test_list_shows_every_data_set_and_the_cache(capsys, tmp_path):
    run("list")
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    assert "3x32x32" in lines["cifar10"]
    assert lines["cifar10"].split()[-1] == "no"
    assert lines["photos"].split()[-1] == "always"
    assert lines["small_mammals"].split()[2] == "5"
    assert str(tmp_path / "cache") in said


@pytest.mark.usefixtures("small_copies")
def test_get_imports_a_copy_info_describes_it_and_rm_removes_it(capsys, tmp_path):
    write_mnist_like(tmp_path / "copy")
    run("get", "mnist", "--from", str(tmp_path / "copy"))
    assert "20 train, 10 test images" in capsys.readouterr().out
    run("info", "mnist", "--split", "test")
    said = capsys.readouterr().out
    assert "10 of 1x28x28" in said
    assert "CC BY-SA" in said
    run("rm", "mnist")
    assert "Removed mnist" in capsys.readouterr().out
    run("rm", "mnist")
    assert "not in the cache" in capsys.readouterr().out


def test_info_of_photos_prints_mean_spread_and_counts(capsys):
    run("info", "photos:cat/rocket", "--split", "test")
    said = capsys.readouterr().out
    assert "500 of 3x32x32" in said
    assert "mean" in said
    assert "std" in said
    assert sum(line.split() in (["cat", "250"], ["rocket", "250"]) for line in said.splitlines()) == 2


def test_get_of_the_embedded_set_says_that_nothing_is_needed(capsys):
    run("get", "photos")
    assert "needs no fetching" in capsys.readouterr().out


def test_errors_are_left_to_the_caller():
    with pytest.raises(InvalidInput, match="Did you mean 'mnist'"):
        run("get", "mnits")
    with pytest.raises(DataUnavailable, match="--from PATH"):
        run("get", "celeba")
