"""The recipe for certificates in docs/many-machines.md, followed word for word on the loopback interface."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import dask
import distributed.config  # noqa: F401 - the settings that a client changes must be there
import pytest

import warm
from firstlight._internal.cluster import cluster as cluster_client
from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import on_cluster
from limits import COMMAND
from machines import Machines

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs/many-machines.md"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def recipe(first_word: str) -> list[list[str]]:
    """The lines of the recipe that begin with a word, each split into words."""
    block = next(block for block in PAGE.read_text().split("```sh\n") if block.startswith("openssl"))
    lines = [shlex.split(line) for line in block.partition("```")[0].splitlines() if line]
    return [line for line in lines if line[0] == first_word]


def make_certificates(folder: Path) -> None:
    folder.mkdir()
    for words in recipe("openssl"):
        subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=COMMAND)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls") / "ours"
    make_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def encrypted(certificates):
    """A scheduler and a worker as the recipe starts them, but for addresses and the folder they write to."""
    scheduler, worker = recipe("dask")
    assert (scheduler[:2], worker[:2]) == (["dask", "scheduler"], ["dask", "worker"])
    options = [str(certificates / word) if word.endswith(".pem") else word for word in scheduler[2:]]
    kept = options[options.index("--tls-ca-file") : options.index("--no-dashboard")]
    assert set(kept[::2]) == {word for word in worker if word.startswith("--tls")}
    machines = Machines(certificates, options=("--protocol", "tls", *kept))
    try:
        machines.add_worker("--no-nanny")
        yield machines
    finally:
        machines.close()


def exported(folder: Path) -> dict[str, str]:
    """The variables that the recipe exports, with files of a folder."""
    pairs = [word.split("=") for line in recipe("export") for word in line[1:]]
    return {name: str(folder / value) for name, value in pairs}


def test_the_documented_commands_train_on_an_encrypted_cluster(encrypted, certificates, tmp_path):
    (words,) = recipe("firstlight")
    assert encrypted.address.startswith("tls://127.0.0.1:")
    words = [encrypted.address if word == "tls://host:8786" else word for word in words[1:]]
    words[words.index("--networks") + 1] = "1"
    done = warm.run(
        ["-m", "firstlight", *words, "--n", "20", "--epochs", "1"],
        cwd=tmp_path,
        env={**os.environ, **exported(certificates)},
        timeout=COMMAND,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model.safetensors").is_file()


def client_settings(folder: Path) -> dict[str, str]:
    return {
        "distributed.comm.tls.ca-file": str(folder / "ca.pem"),
        "distributed.comm.tls.client.cert": str(folder / "cert.pem"),
        "distributed.comm.tls.client.key": str(folder / "key.pem"),
    }


def test_certificates_of_others_and_none_at_all_are_refused(encrypted, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_client, "CONNECT_SECONDS", 3.0)
    make_certificates(tmp_path / "others")
    with (
        dask.config.set(client_settings(tmp_path / "others")),
        pytest.raises(InvalidInput, match="none answers at 'tls://"),
        on_cluster(encrypted.address),
    ):
        pass
    plain = encrypted.address.replace("tls://", "tcp://")
    with pytest.raises(InvalidInput, match="none answers at 'tcp://"), on_cluster(plain):
        pass
