"""Decisions from the page become a corrected copy; the data stay as they are."""

import csv
import hashlib

import pytest
from PIL import Image

from firstlight._internal.errors import InvalidInput
from firstlight.questions.labels.decisions import apply_decisions

HEADER = "file,label,decision,new_label"


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, n in (("cat", 3), ("dog", 3)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(n):
            shade = 40 * i + (name == "dog") * 7
            Image.new("L", (4, 4), shade).save(tmp_path / "data" / name / f"{i}.png")
    (tmp_path / "data" / "notes.txt").write_text("by hand")
    return tmp_path


def contents(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def decided(folder, *rows):
    (folder / "decisions.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return folder / "decisions.csv"


def test_a_corrected_copy_of_a_folder(data):
    before = contents(data / "data")
    decisions = decided(
        data, "data/cat/0.png,cat,relabel,dog", "data/cat/1.png,cat,remove,", "data/dog/2.png,dog,keep,"
    )
    copy, counts = apply_decisions("data", decisions)
    assert (copy.name, dict(counts)) == ("data-corrected", {"relabel": 1, "remove": 1, "keep": 1})
    after = contents(data / "data-corrected")
    assert contents(data / "data") == before  # never in place
    assert after.pop("dog/0-2.png") == before["cat/0.png"]  # dog has a 0.png of its own
    assert after == {name: value for name, value in before.items() if name not in ("cat/0.png", "cat/1.png")}
    with pytest.raises(InvalidInput, match="must not exist yet"):
        apply_decisions("data", decisions)


def test_what_a_killed_copy_left_neither_stays_nor_counts(data):
    """Its files once made the next copy call the relabelled picture `0-3.png`, and lay in the copy beside it."""
    (data / ".data-corrected.part" / "dog").mkdir(parents=True)
    (data / ".data-corrected.part" / "dog" / "0-2.png").write_text("half")
    decisions = decided(data, "data/cat/0.png,cat,relabel,dog")
    apply_decisions("data", decisions)
    expected = {"cat/1.png", "cat/2.png", "dog/0-2.png", "dog/0.png", "dog/1.png", "dog/2.png", "notes.txt"}
    assert set(contents(data / "data-corrected")) == expected


def test_a_corrected_copy_of_a_table_keeps_all_columns(data):
    rows = [f"data/{name}/{i}.png,{i},{name}" for name in ("cat", "dog") for i in range(3)]
    (data / "table.csv").write_text("\n".join(["Path,width,class", *rows]) + "\n")
    before = (data / "table.csv").read_text()
    decisions = decided(data, "data/cat/0.png,cat,relabel,dog", "data/dog/1.png,dog,remove,")
    copy, _ = apply_decisions("table.csv", decisions)
    with copy.open() as opened:
        found = [(row["Path"], row["width"], row["class"]) for row in csv.DictReader(opened)]
    wanted = [tuple(row.split(",")) for row in rows if row != "data/dog/1.png,1,dog"]
    assert found == [("data/cat/0.png", "0", "dog"), *wanted[1:]]
    assert (data / "table.csv").read_text() == before
    with pytest.raises(InvalidInput, match="must lie in the folder of"):
        apply_decisions("table.csv", decisions, data / "data" / "other.csv")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "a row for each decision"),
        (["data/cat/0.png,cat,burn,"], "one of keep, relabel, remove"),
        (["data/cat/0.png,cat,relabel,"], "a new label if and only if it relabels"),
        (["data/cat/0.png,cat,keep,", "data/cat/0.png,cat,remove,"], "decides twice about"),
        (["data/cat/9.png,cat,remove,"], "there is no such file in these data"),
        (["../secret.png,cat,remove,"], "there is no such file in these data"),
        (["data/cat/0.png,dog,remove,"], "its label is 'cat' in these data"),
        (["data/cat/0.png,cat,relabel,../../x"], "must be one of the classes cat, dog"),
    ],
)
def test_decisions_that_do_not_fit_the_data_change_nothing(data, rows, says):
    before = contents(data)
    path = decided(data, *rows)
    with pytest.raises(InvalidInput, match=says):
        apply_decisions("data", path)
    path.unlink()
    assert contents(data) == before
