"""Names and entries that nobody foresaw do not end a command, and do not act on the terminal."""

import json
import os
import random
import stat
import subprocess
import sys

import pytest
import torch
from PIL import Image
from torch import nn

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.progress import tell
from firstlight._internal.store import RunSpec, Store
from firstlight.cli.data import get, info
from firstlight.cli.options import OutputFormat
from firstlight.cli.output import page_file, print_table
from firstlight.cli.runs import list_runs, rm
from firstlight.cli.train import train
from firstlight.data import as_images
from firstlight.kernels import ConvKernel, TiledGram
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from firstlight.questions.inspect.measure import inspect
from limits import COMMAND

HOSTILE = b"b[bold]x[red]\x1b[31m\xff"


@pytest.fixture
def hostile_folder(tmp_path):
    """Class folders and pictures whose names are no text, hold markup and an escape code."""
    folder = tmp_path / os.fsdecode(b"set" + HOSTILE)
    for label in (b"a", HOSTILE):
        place = folder / os.fsdecode(label)
        place.mkdir(parents=True)
        for i in range(5):
            pixels = random.Random(i).randbytes(64)
            Image.frombytes("L", (8, 8), pixels).save(place / os.fsdecode(b"%d\xff.png" % i), format="png")
    return folder


def test_hostile_names_are_shown_as_text(hostile_folder, capsys):
    info(str(hostile_folder))
    print_table("runs in [bold]" + str(hostile_folder), ("id",), [("[red]\x1b[2J",)])
    tell("\x1b[1m", "found")
    said = capsys.readouterr()
    assert "b[bold]x[red]\\x1b[31m\\udcff" in said.out.replace("\n", "")
    assert "[red]\\x1b[2J" in said.out
    assert "\x1b" not in said.out + said.err


def test_a_folder_of_names_that_are_no_text_can_be_trained_on(hostile_folder, tmp_path, capsys):
    train(data=str(hostile_folder), epochs=1, output=tmp_path / "w.safetensors")
    assert (tmp_path / "w.safetensors").is_file()
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["file", "dangling link", "pipe", "empty folder", "lie"])
def test_one_bad_entry_does_not_hide_the_other_runs(capsys, kind):
    store, spec = Store(), RunSpec(what="good", config={})
    store.write(spec, {"x": torch.ones(2)}, wall_seconds=0.0, cpu_seconds=0.0)
    bad = store.root / ("0" * 16)
    if kind == "file":
        bad.touch()
    elif kind == "dangling link":
        bad.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(bad)
    else:
        bad.mkdir()
        if kind == "lie":
            (bad / "run.json").write_text("[" * 100_000)
    list_runs(form=OutputFormat(json=True))
    listed = {row["id"]: row["what"] for row in json.loads(capsys.readouterr().out)}
    assert listed == {spec.id: "good", "0" * 16: "damaged"}
    rm("0" * 16)
    assert store.ids() == [spec.id]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_page_is_not_written_to_a_special_file(tmp_path, kind):
    path = tmp_path / "null"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("making a device needs root")
    before = path.stat().st_mode
    with pytest.raises(StoreProblem, match="Cannot write"):
        page_file(path)
    with pytest.raises(StoreProblem, match="Cannot write"):
        train(output=path)
    assert path.stat().st_mode == before


def network(scale=1.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))
    with torch.no_grad():
        model[0].weight *= scale
    return model


def test_finite_weights_that_are_too_large_are_refused_in_one_line():
    images = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InvalidInput, match=r"'0\.weight' holds a weight of") as caught:
        inspect(network(1e25), images)
    assert "\n" not in str(caught.value)


def test_a_tangent_kernel_larger_than_the_memory_is_refused(monkeypatch):
    images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    monkeypatch.setenv("FIRSTLIGHT_MEMORY_GB", "0.00001")  # 10 000 bytes, where 60 x 60 numbers need 14 400
    with pytest.raises(InvalidInput, match="60 x 60 numbers needs"):
        ntk_gram(network(), images, outputs="full", show=False)
    assert ntk_gram(network(), images, outputs="trace", show=False).shape == (20, 20)


def test_half_precision_images_are_converted_and_never_computed_with():
    images = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    half, whole = (inspect(network(), x) for x in (images, images.float()))
    assert half.profile.amplitude.dtype == whole.profile.amplitude.dtype
    assert torch.equal(half.profile.amplitude, whole.profile.amplitude)


def test_a_kernel_matrix_of_half_precision_images_is_stored(tmp_path):
    images = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(0)).bfloat16()
    half, whole = (
        TiledGram.of(x, kernel=ConvKernel(depth=1), folder=tmp_path / name, n_jobs=1, show=False)
        for x, name in ((images, "half"), (images.float(), "whole"))
    )
    assert torch.equal(half.columns(torch.arange(4)), whole.columns(torch.arange(4)))


@pytest.mark.parametrize("n", [0, -1])
def test_no_images_at_all_are_refused(n):
    for images in (torch.rand(3, 1, 8, 8), "photos"):
        with pytest.raises(InvalidInput, match="must"):
            as_images(images, n=n)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: (folder / "x.npz").symlink_to("x.npz"), "x.npz"),
        (lambda folder: (folder / "x.npz").write_text("none"), "not a plain npz file"),
    ],
)
def test_a_path_with_a_line_break_or_a_circle_of_links_ends_in_one_line(tmp_path, make, words):
    folder = tmp_path / "a\nb"
    folder.mkdir()
    make(folder)
    command = [sys.executable, "-m", "firstlight", "data", "info", str(folder / "x.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_whatever_is_wrong_with_a_copy_is_told_in_one_line(tmp_path):
    """A row without a class once ended the reader of this data set in an AttributeError."""
    (tmp_path / "train" / "00000").mkdir(parents=True)
    for name in ("train/00000/0_0.ppm", "a.ppm"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "GT-final_test.csv").write_text("Filename;ClassId\na.ppm\n")
    with pytest.raises(InvalidInput, match="must give a file and a class in every row"):
        get("gtsrb", source=tmp_path)
