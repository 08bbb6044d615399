"""`firstlight inspect`: a page for good input, one line and exit code 2 for bad."""

import sys

import pytest
import torch
from safetensors.torch import save_file

from firstlight import models
from firstlight.cli.main import main
from firstlight.cli.report import report


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


def test_no_checkpoint_is_needed_if_ones_own_code_loads_the_weights(tmp_path, monkeypatch, capsys):
    (tmp_path / "ready_networks.py").write_text(
        "from firstlight import models\n\ndef lenet():\n    return models.build('lenet', classes=8)\n"
        "\ndef two():\n    return Two()\n\n"
        "from torch import nn\nclass Two(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = lenet()\n    def forward(self, x):\n        return {'logits': self.net(x), 'x': x}\n"
    )
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    given = ("--data", "photos", "--n", 4, "--output", page, "--bgr", "--static", "--import")
    code, _, err = run(monkeypatch, capsys, *given, "ready_networks:lenet")
    assert code == 0, err
    assert "<script" not in page.read_text()
    code, _, err = run(monkeypatch, capsys, *given, "ready_networks:two")
    assert code == 2
    assert "Name the part by --model-output" in err


def test_a_folder_of_mixed_pictures_without_labels_will_do(weights, tmp_path, monkeypatch, capsys):
    from PIL import Image

    folder = tmp_path / "holiday"
    folder.mkdir()
    for i, (mode, size) in enumerate([("RGB", (40, 30)), ("L", (33, 50)), ("RGBA", (36, 36))]):
        Image.new(mode, size).save(folder / f"{i}.png")
    (folder / "broken.png").write_bytes(b"")
    page = tmp_path / "page.html"
    given = (weights, "--arch", "lenet", "--data", folder, "--output", page)
    code, _, err = run(monkeypatch, capsys, *given, "--size", 32)
    assert code == 2
    assert "or give --skip-broken to leave such files out" in err
    code, _, err = run(monkeypatch, capsys, *given, "--size", 32, "--skip-broken")
    assert code == 0, err
    assert page.exists()


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
        (None, ("--arch", "lenet", "--device", "abacus"), "--device must be"),
        (None, ("--arch", "timm:resnet18"), "needs timm"),
        (None, ("--arch", "torchvision:resnet18"), "needs torchvision"),
        (None, ("--import", "a:b", "--arch", "lenet"), "give either --arch, the name of one, or --import"),
        (None, ("--arch", "lenet", "--bgr", "--size", 8), "--size, --crop, --channels and --skip-broken say"),
        (None, ("--arch", "lenet", "--n", 0), "--n must be at least 1"),
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


def test_a_stored_inspection_is_shown_again_and_measured_anew(weights, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = (weights, "--arch", "lenet", "--data", "photos", "--n", 4, "--device", "cpu")
    ids = []
    for _ in range(2):
        code, _, err = run(monkeypatch, capsys, *given)
        assert code == 0, err
        ids.append(err.split("`firstlight report ")[1].split("`")[0])
    assert ids[0] == ids[1]
    weights.unlink()
    report(ids[0], output=tmp_path / "again.html")
    assert "What lenet has learned" in (tmp_path / "again.html").read_text()


def test_a_folder_of_runs_that_cannot_be_written_costs_the_run_and_not_the_page(
    weights, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(tmp_path / "file" / "runs"))
    code, _, err = run(monkeypatch, capsys, weights, "--arch", "lenet", "--data", "photos", "--n", 4)
    assert code == 0, err
    assert "the run is not kept" in err
    assert (tmp_path / "inspect.html").exists()


def test_a_model_that_takes_no_tensor_is_called_by_the_users_code(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "named_inputs.py").write_text(
        "from torch import nn\nfrom firstlight import models\n"
        "class Named(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = models.build('lenet', classes=8)\n"
        "    def forward(self, batch):\n        return self.inner(batch['pixels'])\n"
        "def call(model, images):\n    return model({'pixels': images})\n"
    )
    given = ("--import", "named_inputs:Named", "--data", "photos", "--n", 4, "--output", tmp_path / "p.html")
    code, _, err = run(monkeypatch, capsys, *given)
    assert code == 2
    assert "cannot take images" in err
    code, _, err = run(monkeypatch, capsys, *given, "--call", "named_inputs:call")
    assert code == 0, err
    assert "model.inner.conv1" in (tmp_path / "p.html").read_text()
