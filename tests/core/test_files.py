import errno
import os
from pathlib import Path

import pytest

from firstlight.core.errors import StoreProblem
from firstlight.core.files import clear_disk_errors, sha256_of, whole_file, whole_folder


def write_to_a_full_disk():
    with clear_disk_errors(Path("/dev/full")):
        Path("/dev/full").write_bytes(b"x" * 100)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_gives_one_sentence():
    with pytest.raises(StoreProblem, match="Cannot write /dev/full: the disk is full"):
        write_to_a_full_disk()


def test_other_errors_pass_unchanged(tmp_path):
    with pytest.raises(OSError, match="strange"), clear_disk_errors(tmp_path):
        raise OSError(errno.EIO, "strange")


@pytest.mark.parametrize("kind", [whole_file, whole_folder])
def test_nothing_remains_of_an_interrupted_write(tmp_path, kind):
    def interrupted():
        with kind(tmp_path / "sub" / "target") as part:
            (part if part.is_file() else part / "inner").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path / "sub") == []


def test_a_whole_file_replaces_the_old_one_and_a_whole_folder_does_not(tmp_path):
    for text in ("old", "new"):
        with whole_file(tmp_path / "f") as part:
            part.write_text(text)
        with whole_folder(tmp_path / "d") as part:
            (part / "inner").write_text(text)
    assert (tmp_path / "f").read_text() == "new"
    assert (tmp_path / "d" / "inner").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["d", "f"]


def test_files_get_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "f") as part:
            part.chmod(0o600)  # as the writer of safetensors does
        with whole_folder(tmp_path / "d") as part:
            (part / "inner").touch(mode=0o600)
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("f", "d", "d/inner")]
    assert modes == [0o640, 0o750, 0o640]


def test_the_checksum_is_that_of_the_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256_of(tmp_path / "f").startswith("ba7816bf8f01cfea")
