"""`firstlight compare`: a folder in the order of training, broken files named, one clear error."""

import json
import sys

import pytest
from safetensors.torch import save_file

from firstlight import models
from firstlight.cli.main import main
from firstlight.cli.report import report


def write(path, seed=0):
    save_file(models.build("small", classes=5, width=0.2, seed=seed).state_dict(), path)  # not 8: no accuracy


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for epoch in (1, 2, 10):
        write(tmp_path / "runs" / f"epoch_{epoch}.safetensors", seed=epoch)
    (tmp_path / "runs" / "notes.txt").write_text("not a checkpoint")
    return tmp_path / "runs"


def run(monkeypatch, capsys, *arguments):
    shared = ("--arch", "small", "--option", "width=0.2", "--data", "photos", "--n", 4, "--no-regime")
    monkeypatch.setattr(sys, "argv", ["firstlight", "compare", *map(str, (*arguments, *shared))])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_folder_is_read_in_the_order_of_counting_and_broken_files_are_left_out(folder, monkeypatch, capsys):
    (folder / "epoch_3.safetensors").write_bytes(b"torn")
    code, out, err = run(monkeypatch, capsys, folder, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert [model["name"] for model in told["models"]] == [f"epoch_{i}.safetensors" for i in (1, 2, 10)]
    assert told["initial"] == "epoch_1.safetensors"
    assert told["models"][0]["centred"] is None
    assert list(told["left_out"]) == ["epoch_3.safetensors"]
    assert "left out epoch_3.safetensors" in err
    assert "Traceback" not in err
    assert "3 models side by side" in (folder.parent / "compare.html").read_text()


def test_files_may_be_named_and_the_page_may_do_without_scripts(folder, monkeypatch, capsys):
    files = (folder / "epoch_1.safetensors", folder / "epoch_10.safetensors")
    code, out, err = run(
        monkeypatch, capsys, *files, "--initial", folder / "epoch_2.safetensors", "--static", "-o", "two.html"
    )
    assert code == 0, err
    assert "Wrote two.html" in out
    page = (folder.parent / "two.html").read_text()
    assert "<script" not in page
    assert "Distance from the initial model" in page


@pytest.mark.parametrize("broken", ["none", "one", "all"])
def test_too_few_checkpoints_are_one_clear_line(folder, monkeypatch, capsys, broken):
    for file in folder.glob("*.safetensors"):
        file.write_bytes(b"torn") if broken == "all" else file.unlink()
    if broken == "one":
        write(folder / "epoch_1.safetensors")
    code, _, err = run(monkeypatch, capsys, folder)
    assert code == 2
    assert err.count("\n") == 1
    assert ("None of the 3 models could be measured" if broken == "all" else "at least 2 checkpoints") in err


def test_the_page_is_written_again_from_the_stored_run(folder, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, folder, "--static")
    assert code == 0, err
    id = err.split("`firstlight report ")[1].split("`")[0]
    for file in folder.glob("*.safetensors"):
        file.unlink()  # nothing is measured again
    report(id, output=folder.parent / "again.html", static=True)
    first, again = ((folder.parent / name).read_text() for name in ("compare.html", "again.html"))
    figures = [page.count('<svg class="figure"') for page in (first, again)]
    assert figures[0] == figures[1] > 5
    assert "3 models side by side" in again
