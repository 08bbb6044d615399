"""`firstlight inspect`: a page for good input, one line and exit code 2 for bad."""

import sys

import pytest
import torch
from safetensors.torch import save_file

from firstlight import models
from firstlight.cli.main import main


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "lenet.safetensors"
    save_file(models.build("lenet", classes=8).state_dict(), path)
    return path


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["firstlight", "inspect", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_page_is_written_for_wrapped_and_prefixed_weights(weights, tmp_path, monkeypatch, capsys):
    state = models.build("lenet", classes=8, seed=1).state_dict()
    wrapped = tmp_path / "wrapped.pt"
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, wrapped)
    page = tmp_path / "page.html"
    code, out, err = run(
        monkeypatch, capsys, wrapped, "--arch", "lenet", "--data", "photos", "--n", 8, "--initial", weights,
        "--mean", 0.5, "--std", 0.25, 0.25, 0.25, "--output", page, "--device", "cpu",
    )  # fmt: skip
    assert code == 0, err
    assert f"Wrote {page}" in out
    assert "Training moved layer" in page.read_text()


def test_ones_own_code_builds_the_model(weights, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_networks.py").write_text(
        "from firstlight import models\n\ndef lenet():\n    return models.build('lenet', classes=8)\n\nword = 'no'\n"
    )
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    given = (weights, "--data", "photos", "--n", 4, "--output", page, "--import")
    assert run(monkeypatch, capsys, *given, "my_networks:lenet")[0] == 0
    assert page.exists()
    for factory in ("my_networks:other", "nowhere:lenet", "my_networks", "my_networks:word"):
        code, _, err = run(monkeypatch, capsys, *given, factory)
        assert code == 2
        assert factory in err


def damaged(folder):
    path = folder / "damaged.pt"
    path.write_bytes(b"PK\x03\x04 this was a checkpoint once")
    return path


def not_a_number(folder):
    path = folder / "nan.safetensors"
    state = models.build("lenet", classes=8).state_dict()
    next(iter(state.values()))[0] = torch.nan
    save_file(state, path)
    return path


@pytest.mark.parametrize(
    ("make", "more", "words"),
    [
        (damaged, (), "damaged"),
        (not_a_number, (), "NaN"),
        (None, ("--arch", "vgg11"), "missing"),
        (None, ("--arch", "lenett"), "Did you mean 'lenet'"),
        (None, ("--arch", "lenet", "--classes", 5), "of another shape"),
        (None, ("--arch", "lenet", "--data", "fotos"), "Did you mean 'photos'"),
        (None, ("--arch", "lenet", "--data", "EMPTY"), ""),
        (None, ("--arch", "lenet", "--option", "width"), "name=value"),
        (None, ("--arch", "lenet", "--std", 0), "all positive"),
        (None, ("--arch", "lenet", "--device", "abacus"), "`device` must be"),
        (None, ("--arch", "timm:resnet18"), "needs timm"),
        (None, ("--arch", "torchvision:resnet18"), "needs torchvision"),
        (None, ("--import", "a:b", "--arch", "lenet"), "either --arch"),
        (None, ("--arch", "lenet", "--n", 0), "`n_images` must be at least 1"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(make, more, words, weights, tmp_path, monkeypatch, capsys):
    empty = tmp_path / "EMPTY"
    empty.mkdir()
    arguments = [empty if word == "EMPTY" else word for word in more]
    if "--arch" not in arguments and "--import" not in arguments:
        arguments += ["--arch", "lenet"]
    if "--data" not in arguments:
        arguments += ["--data", "photos"]
    path = make(tmp_path) if make else weights
    code, out, err = run(monkeypatch, capsys, path, *arguments, "--output", tmp_path / "page.html")
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err + out
    assert not (tmp_path / "page.html").exists()


def test_wrong_channels_are_refused(weights, tmp_path, monkeypatch, capsys):
    from PIL import Image

    for name in ("cat", "dog"):
        (tmp_path / "grey" / name).mkdir(parents=True)
        Image.new("L", (32, 32), 90).save(tmp_path / "grey" / name / "1.png")
    (tmp_path / "net.py").write_text(
        "from firstlight import models\nnet = models.build('lenet', classes=8)\n"
    )
    monkeypatch.chdir(tmp_path)
    code, _, err = run(
        monkeypatch, capsys, weights, "--import", "net:net", "--data", tmp_path / "grey", "--output", "p.html"
    )
    assert code == 2
    assert "cannot take images of shape 1x32x32" in err
