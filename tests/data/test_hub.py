"""Weights and images by addresses of the Hugging Face hub, from a server of our own that answers as the hub does."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import firstlight
from data.hub_server import COMMIT, serving
from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.hub import hub_file
from firstlight.models import save_weights
from limits import COMMAND

WEIGHTS = "hf://models/somebody/small-net/model.safetensors"
IMAGES = "hf://datasets/somebody/squares/images.zip"
OPTIONS = {"architecture": "small", "options": {"width": 0.25}}


@pytest.fixture(scope="module")
def hub():
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def own_cache(hub, tmp_path, monkeypatch):
    """An empty cache, and our server for the hub's; nothing is allowed yet."""
    from huggingface_hub import constants

    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("FIRSTLIGHT_HUB", raising=False)
    hub.files, hub.sent = {}, {}
    hub.requests.clear()


def put_network(hub, tmp_path):
    network = firstlight.build("small", classes=3, width=0.25, seed=5)
    file = save_weights(network.state_dict(), tmp_path / "w.safetensors")
    hub.files["/somebody/small-net/model.safetensors"] = file.read_bytes()
    return network


def put_images(hub):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i, name in enumerate(["dark", "light"]):
            for j in range(4):
                picture = io.BytesIO()
                Image.fromarray(np.full((32, 32, 3), 200 * i + j, np.uint8)).save(picture, "PNG")
                archive.writestr(f"{name}/{j}.png", picture.getvalue())
    hub.files["/datasets/somebody/squares/images.zip"] = buffer.getvalue()


def test_nothing_is_downloaded_before_it_is_allowed_and_then_the_cache_suffices(hub, tmp_path, monkeypatch):
    network = put_network(hub, tmp_path)
    with pytest.raises(
        DataUnavailable, match=r"nothing is downloaded unless you allow it: set FIRSTLIGHT_HUB=online"
    ):
        firstlight.load_model(WEIGHTS, **OPTIONS)
    assert hub.requests == []
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    loaded = firstlight.load_model(WEIGHTS, **OPTIONS)
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), network.parameters(), strict=True))
    asked = len(hub.requests)
    assert asked >= 2
    monkeypatch.delenv("FIRSTLIGHT_HUB")
    again = firstlight.load_model(WEIGHTS.replace("net/", "net@main/"), **OPTIONS)
    assert torch.equal(next(again.parameters()), next(network.parameters()))
    assert len(hub.requests) == asked


def test_images_come_from_an_archive_of_class_folders(hub, monkeypatch):
    put_images(hub)
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    images = firstlight.load(IMAGES, n=6)
    assert images.classes == ("dark", "light")
    assert images.counts.tolist() == [3, 3]
    assert float(images.x[images.y == 1].min()) > 0.7
    assert torch.equal(firstlight.load(Path(IMAGES), n=6).x, images.x)  # a path has lost a slash


def test_a_revision_is_asked_for_and_an_unknown_one_is_refused(hub, tmp_path, monkeypatch):
    put_network(hub, tmp_path)
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    firstlight.load_model(WEIGHTS.replace("net/", "net@v1/"), **OPTIONS)
    assert any("/resolve/v1/" in request for request in hub.requests)
    asked = len(hub.requests)
    firstlight.load_model(WEIGHTS.replace("net/", f"net@{COMMIT}/"), **OPTIONS)
    assert len(hub.requests) == asked  # a commit never changes
    with pytest.raises(DataUnavailable, match="cannot be downloaded: 404"):
        firstlight.load_model(WEIGHTS.replace("net/", "net@gone/"), **OPTIONS)


def test_bytes_with_another_checksum_are_refused_at_once_and_later(hub, tmp_path, monkeypatch):
    put_network(hub, tmp_path)
    path = "/somebody/small-net/model.safetensors"
    changed = bytearray(hub.files[path])
    changed[-1] ^= 1
    hub.sent[path] = bytes(changed)
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"has the checksum .* instead of .*which the hub names"):
            firstlight.load_model(WEIGHTS, **OPTIONS)


def test_a_file_that_was_changed_in_the_cache_is_refused_large_or_small(hub, tmp_path, monkeypatch):
    put_network(hub, tmp_path)
    hub.files["/somebody/small-net/tiny.safetensors"] = b"tiny"
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    for name in ("model", "tiny"):
        address = WEIGHTS.replace("model.s", f"{name}.s")
        file = hub_file(address, kind="models", endings=(".safetensors",))
        blob = file.resolve()
        blob.write_bytes(blob.read_bytes()[:-1] + b"?")
        with pytest.raises(InvalidInput, match=f"remove {blob} and download it again"):
            hub_file(address, kind="models", endings=(".safetensors",))


@pytest.mark.parametrize(
    "address",
    ["hf://models/somebody/net/pytorch_model.bin", "hf://models/net/model.safetensors", "hf://models/a/b",
     "hf://datasets/a/b/model.safetensors", "hf://models/a/b/../../model.safetensors.txt", "hf://"],
)  # fmt: skip
def test_addresses_of_anything_but_safetensors_are_refused_without_a_request(hub, address, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    with pytest.raises(InvalidInput, match=r"must be hf://models/OWNER/NAME/FILE"):
        firstlight.load_model(address, architecture="small")
    assert hub.requests == []


def test_no_file_outside_the_cache_is_reached_by_an_address(hub, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_HUB", "online")
    with pytest.raises((InvalidInput, DataUnavailable)):
        firstlight.load_model("hf://models/a/b/../../../../../w.safetensors", architecture="small")


def test_the_command_reads_both_from_the_hub(hub, tmp_path):
    put_network(hub, tmp_path)
    put_images(hub)
    page = tmp_path / "page.html"
    command = [
        sys.executable, "-m", "firstlight", "inspect", WEIGHTS, "--arch", "small", "--option", "width=0.25",
        "--data", IMAGES, "--classes", "3", "--output", str(page),
    ]  # fmt: skip
    variables = {
        "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "FIRSTLIGHT_RUNS": str(tmp_path / "runs"),
    }  # fmt: skip
    for allowed, code in ({}, 1), ({"FIRSTLIGHT_HUB": "online"}, 0), ({}, 0):
        done = subprocess.run(
            command, env={**os.environ, **variables, **allowed}, capture_output=True, text=True, timeout=COMMAND,
            check=False,
        )  # fmt: skip
        assert (done.returncode == 0) == (code == 0), done.stderr
        assert "Traceback" not in done.stderr
        assert page.is_file() == (code == 0)
