"""`firstlight labels`: swapped files are named, chance is refused, broken input gives one line."""

import csv
import sys

import pytest
import torch
from PIL import Image

from firstlight.cli.main import main

SWAPPED = {("above", 3), ("above", 17), ("below", 8)}


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["firstlight", "labels", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


def picture(kind, seed):
    pixels = 40 * torch.rand(8, 8, generator=torch.Generator().manual_seed(seed))
    half = slice(0, 4) if kind == "above" else slice(4, 8)
    pixels[half] += 180
    return Image.fromarray(pixels.to(torch.uint8).numpy())


@pytest.fixture
def folder(tmp_path):
    """Class folders in which three pictures lie in the wrong one."""
    for kind, other in (("above", "below"), ("below", "above")):
        (tmp_path / "data" / kind).mkdir(parents=True)
        for i in range(40):
            shown = other if (kind, i) in SWAPPED else kind
            picture(shown, seed=2 * i + (kind == "above")).save(tmp_path / "data" / kind / f"{i}.png")
    return tmp_path / "data"


def names(folder):
    return {str(folder / kind / f"{i}.png") for kind, i in SWAPPED}


def test_swapped_files_come_first_in_the_table_and_on_the_page(folder, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    code, out, err = run(monkeypatch, capsys, folder, "--output", page, "--top", 5)
    assert code == 0, err
    assert "labels that we changed ourselves" in err
    assert f"Wrote {tmp_path / 'page.csv'}" in out
    with (tmp_path / "page.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["file"] for row in rows[:3]} == names(folder)
    assert all(row["likely_label"] != row["label"] for row in rows[:3])
    text = page.read_text()
    assert text.count('<article class="suspect"') <= 5
    assert all(name in text for name in names(folder))
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_a_table_of_files_and_labels_is_checked_too(folder, tmp_path, monkeypatch, capsys):
    table = tmp_path / "annotated.csv"
    rows = [f"data/{kind}/{i}.png,{kind}" for kind in ("above", "below") for i in range(40)]
    table.write_text("file,label\n" + "\n".join(rows) + "\n")
    code, out, err = run(monkeypatch, capsys, table, "--output", tmp_path / "p.html", "--csv", "--static")
    assert code == 0, err
    assert out == (tmp_path / "p.csv").read_text()  # printed as it is written
    with (tmp_path / "p.csv").open() as file:
        first = list(csv.DictReader(file))[:3]
    assert {row["file"] for row in first} == {f"data/{kind}/{i}.png" for kind, i in SWAPPED}
    assert all(rows[int(row["index"])].startswith(row["file"]) for row in first)
    assert "<script" not in (tmp_path / "p.html").read_text()


def test_names_of_classes_and_files_do_nothing_on_the_page_or_in_the_table(tmp_path, monkeypatch, capsys):
    for kind, name in (("above", "=cmd()<script>alert(1)</script>"), ("below", "b&b")):
        place = tmp_path / "data" / name.replace("/", "")
        place.mkdir(parents=True)
        for i in range(24):
            picture(kind if i else {"above": "below", "below": "above"}[kind], seed=i).save(
                place / f"<img onerror=x>{i}.png"
            )
    code, _, err = run(monkeypatch, capsys, tmp_path / "data", "--output", tmp_path / "p.html")
    assert code == 0, err
    text = (tmp_path / "p.html").read_text()
    assert "<script>alert" not in text
    assert "<img onerror" not in text
    with (tmp_path / "p.csv").open() as file:
        labels = {row["label"] for row in csv.DictReader(file)}
    assert "b&b" in labels
    assert all(not label.startswith("=") for label in labels)


def test_a_network_that_cannot_learn_names_no_suspects(tmp_path, monkeypatch, capsys):
    for kind in ("a", "b"):
        (tmp_path / "data" / kind).mkdir(parents=True)
        for i in range(24):
            noise = torch.randint(
                0, 255, (8, 8), generator=torch.Generator().manual_seed(i + 100 * (kind == "a"))
            )
            Image.fromarray(noise.to(torch.uint8).numpy()).save(tmp_path / "data" / kind / f"{i}.png")
    code, _, err = run(monkeypatch, capsys, tmp_path / "data", "--output", tmp_path / "p.html")
    assert code == 0
    assert "No label is suspected" in err
    assert (tmp_path / "p.csv").read_text().count("\n") == 1
    assert '<article class="suspect"' not in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file,label\n", "at least one row"),
        ("", "names the columns file and label"),
        ("a,b\n1,2\n", "names the columns file and label"),
        ("file,label\nmissing.png,cat\n", "row 1: there is no file"),
        ("file,label\nx.png\n", "row 1: a row must hold a file and a label"),
        ('file,label\n"x.png,cat\n', "cannot be read as a CSV"),
    ],
)
def test_a_broken_table_gives_one_line(tmp_path, monkeypatch, capsys, text, words):
    table = tmp_path / "broken.csv"
    table.write_text(text)
    code, _, err = run(monkeypatch, capsys, table, "--output", tmp_path / "p.html")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "p.html").exists()


def test_a_file_with_two_labels_is_refused(folder, tmp_path, monkeypatch, capsys):
    table = tmp_path / "twice.csv"
    table.write_text("label,path\nabove,data/above/1.png\n\nbelow,data/above/2.png\nbelow,data/above/1.png\n")
    code, _, err = run(monkeypatch, capsys, table, "--output", tmp_path / "p.html")
    assert code == 2
    assert "row 3: data/above/1.png is listed already in row 1" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["photos", "--budget", "soon"], "--budget must be a duration"),
        (["photos", "--record", "x.csv", "--arch", "lenet"], "leave out --arch"),
        (["photos", "--record", "x.csv", "--import", "a:b"], "leave out --arch, --import"),
        (["photos", "--arch", "lenet", "--import", "a:b"], "give one of them"),
        (["photos", "--import", "lenet"], "as module:function; got 'lenet'"),
        (["photos", "--n", "40", "--arch", ""], "Unknown model ''"),
        (["photos", "--output", "no/such/x.html"], "--output must name a file"),
        (["photos", "--output", "labels.csv"], "--output names the page"),
        (["photos", "--n", "40", "--top", "0"], "--top"),
        (["no_such_set"], "no_such_set"),
    ],
)
def test_bad_arguments_give_one_line(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
