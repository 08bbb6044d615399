"""The wheel that users install: built here, installed where the checkout is not seen, and run."""

import json
import os
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

from firstlight._internal.version import __version__
from limits import COMMAND

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[1]


def outside(**variables):
    """The environment without the checkout on the path."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "FIRSTLIGHT_JOBS": "1", **variables}


def run(command, *, cwd):
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=outside(),
        capture_output=True,
        text=True,
        timeout=COMMAND,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build from a copy, so that no build folder appears in the checkout; setuptools is already installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for file in (ROOT / "src" / "firstlight").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            copy = source / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", target, source], cwd=target)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("firstlight-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh environment with the wheel in it; other packages are those of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    done = run([sys.executable, "-m", "venv", "--without-pip", folder], cwd=folder)
    assert done.returncode == 0, done.stderr
    scheme = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", scheme="venv", vars=scheme))
    python = folder / "bin" / "python"
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", python, "install", *options, wheel]
    done = run(command, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    # folders of a .pth file come last on the path, and .pth files in them are not read: an editable install
    # of the checkout in the tests' own environment stays out of sight
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_wheel_holds_code_data_and_licence_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("firstlight/py.typed", "firstlight/__main__.py"):
        assert wanted in names
    templates = {file.name for file in (ROOT / "src/firstlight/pages/templates").iterdir() if file.is_file()}
    assert templates
    assert {Path(name).name for name in names if "/pages/templates/" in name} == templates
    assert {Path(name).suffix for name in names if "/questions/labels/labels." in name} == {
        ".css",
        ".html",
        ".js",
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert all(
        name.split("/")[0] in ("firstlight", wheel.name.split("-py3")[0] + ".dist-info") for name in names
    )


def test_the_metadata_say_what_it_is_typed_for_and_where_it_runs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = archive.read(name).decode()
    for wanted in ("Typing :: Typed", "Operating System :: POSIX :: Linux"):
        assert f"Classifier: {wanted}" in metadata
    assert "Provides-Extra: cluster" in metadata


def test_every_module_of_the_checkout_is_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    assert {str(file.relative_to(source)) for file in source.rglob("firstlight/**/*.py")} <= names


def test_the_installed_command_starts_from_the_wheel(environment, tmp_path):
    command = environment / "bin" / "firstlight"
    done = run([command, "--help"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tour" in done.stdout
    where = run(
        [environment / "bin" / "python", "-c", "import firstlight; print(firstlight.__file__)"], cwd=tmp_path
    )
    assert Path(where.stdout.strip()).is_relative_to(environment), where.stdout + where.stderr
    version = run([command, "--version"], cwd=tmp_path)
    assert version.stdout.strip().endswith(__version__), version.stdout + version.stderr


def test_the_starter_networks_are_in_the_wheel_and_it_stays_small(wheel):
    starter, rest = 0, 0
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if "/networks/starter/" in entry.filename:
                starter += entry.compress_size
            else:
                rest += entry.compress_size
        names = archive.namelist()
    for network in ("resnet20-cifar10-0", "small-cifar10-0"):
        for file in ("card.json", "weights.safetensors", "record.safetensors"):
            assert f"firstlight/networks/starter/{network}/{file}" in names
    assert "firstlight/networks/reference.json" in names
    assert starter <= 5e6
    assert rest <= 1e6


def test_one_number_of_the_starter_network_comes_from_the_wheel(environment, tmp_path):
    arguments = ["networks:small-cifar10-0", "--data", "photos", "--n", "24", "--json"]
    done = run([environment / "bin" / "firstlight", "ntk", *arguments], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trained, initial = json.loads(done.stdout)
    assert trained["network"] == "trained"
    assert trained["alignment"] != initial["alignment"]


def page_of(environment, arguments, folder, **variables):
    """The page after the first part of a tour, which is then killed, and what the command said."""
    page = folder / "tour.html"
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [str(part) for part in (environment / "bin" / "firstlight", *arguments, "--output", page)],
            cwd=folder,
            env=outside(FIRSTLIGHT_RUNS=str(folder / "runs"), **variables),
            stderr=said,
        )
        try:
            while not page.exists() or "Accuracy of the networks" not in page.read_text():
                assert process.poll() is None, (folder / "said").read_text()
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    return page.read_text(), (folder / "said").read_text()


def test_a_tour_of_ones_own_images_starts_from_the_wheel(environment, tmp_path):
    """The page that a tour writes after its first part is made from the templates in the wheel."""
    page, said = page_of(environment, ["tour", "--data", "photos", "--minutes", "0.1", "--n", "40"], tmp_path)
    assert "<html" in page[:2000]
    assert said.startswith("photos: 40 training")


def test_a_tour_of_the_starter_network_needs_neither_a_checkout_nor_a_registry(environment, tmp_path):
    page, said = page_of(
        environment, ["tour"], tmp_path, PATH=str(environment / "bin"), FIRSTLIGHT_DATA=str(tmp_path / "data")
    )
    assert "What ResNet-20 (seed 0) learned from CIFAR-10" in page
    assert "The first layer during training" in page
    assert "photographs take their place" in said
