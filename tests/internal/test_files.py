import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from firstlight._internal import files
from firstlight._internal.errors import StoreProblem
from firstlight._internal.files import (
    clear_disk_errors,
    locked,
    scratch_folder,
    sha256_of,
    whole_file,
    whole_folder,
)
from firstlight._internal.tensor_files import save_sealed


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
            (part / "inner" if part.is_dir() else part).write_text("half")
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
            save_sealed(part, {"x": torch.ones(2)})
        with whole_folder(tmp_path / "d") as part:
            save_sealed(part / "inner", {"x": torch.ones(2)})
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("f", "d", "d/inner")]
    assert modes == [0o640, 0o750, 0o640]


def test_the_checksum_is_that_of_the_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256_of(tmp_path / "f").startswith("ba7816bf8f01cfea")


def special_file(kind, path):
    """Make a file at which nothing may be written."""
    if kind == "named pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    else:
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("making a device needs root")


def write_text(path, text="new"):
    with whole_file(path) as part:
        part.write_text(text)


def write_folder(path, text="new"):
    with whole_folder(path) as part:
        (part / "inner").write_text(text)


@pytest.mark.parametrize("kind", ["named pipe", "socket", "device"])
@pytest.mark.parametrize("write", [write_text, write_folder])
@pytest.mark.parametrize("linked", [False, True])
def test_a_special_file_is_refused_and_left_alone(tmp_path, monkeypatch, kind, write, linked):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    target = Path("null")
    special_file(kind, target)
    before = target.stat()
    if linked:
        Path("link").symlink_to(target)
    with pytest.raises(StoreProblem, match=f"it is a {kind}, not a") as caught:
        write(Path("link" if linked else "null"))
    assert "\n" not in str(caught.value)
    assert (target.stat().st_ino, target.stat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(os.listdir()) == sorted(["null"] + ["link"] * linked)


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    with pytest.raises(StoreProblem, match="it is a folder, not a regular file"):
        write_text(tmp_path / "d")
    with pytest.raises(StoreProblem, match="it is a file, not a folder"):
        write_folder(tmp_path / "f")


def test_a_folder_that_another_writer_takes_away_under_our_eyes_is_written(tmp_path, monkeypatch):
    target, look = tmp_path / "d", os.stat
    target.mkdir()

    def look_and_remove(path, **options):
        found = look(path, **options)
        if Path(path) == target and options.get("follow_symlinks") is not False and not os.listdir(target):
            target.rmdir()
        return found

    monkeypatch.setattr(os, "stat", look_and_remove)
    write_folder(target)
    assert (target / "inner").read_text() == "new"


def test_a_folder_that_another_writer_finishes_at_the_last_moment_stays(tmp_path, monkeypatch):
    target, rename = tmp_path / "d", Path.rename

    def finish_first(part, goal):
        target.mkdir()
        (target / "inner").write_text("theirs")
        return rename(part, goal)

    monkeypatch.setattr(Path, "rename", finish_first)
    write_folder(target)
    assert (target / "inner").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["d"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_the_file_it_leads_to_is_replaced(tmp_path, exists):
    (tmp_path / "elsewhere").mkdir()
    if exists:
        (tmp_path / "elsewhere" / "f").write_text("old")
    (tmp_path / "f").symlink_to("elsewhere/f")
    (tmp_path / "d").symlink_to("elsewhere/d")
    write_text(tmp_path / "f")
    write_folder(tmp_path / "d")
    assert (tmp_path / "f").is_symlink()
    assert (tmp_path / "d").is_symlink()
    assert (tmp_path / "elsewhere" / "f").read_text() == "new"
    assert (tmp_path / "elsewhere" / "d" / "inner").read_text() == "new"
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["d", "f"]


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "f").symlink_to("f")
    with pytest.raises(StoreProblem, match="circle"):
        write_text(tmp_path / "f")


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda one: flushed.append(os.readlink(f"/proc/self/fd/{one}")))
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not tell what a descriptor stands for")
    write_text(tmp_path / "f")
    assert flushed[-1] == str(tmp_path)
    write_folder(tmp_path / "d")
    assert flushed[-1] == str(tmp_path)
    assert any(name.endswith("inner") for name in flushed)


def test_old_leftovers_are_swept_and_the_rest_is_left(tmp_path):
    old, young = ".firstlight-ffffff-1-01234567.part", ".firstlight-ffffff-1-89abcdef.part"
    folders = [young, "kept", "firstlight-main", ".film.part"]  # the last two are names that others use
    for name in (old, *folders):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inner").touch()
    for name in (".other.lock", ".free.firstlight.lock", ".held.firstlight.lock"):
        (tmp_path / name).touch()
    two_days_ago = (tmp_path / "kept").stat().st_mtime - 2 * 86_400
    for path in tmp_path.rglob("*"):
        if path.parent.name != young:
            os.utime(path, (two_days_ago, two_days_ago))
    with locked(tmp_path / "held"):
        assert set(os.listdir(tmp_path)) == {*folders, ".other.lock", ".held.firstlight.lock"}
    assert set(os.listdir(tmp_path)) == {*folders, ".other.lock"}


def test_the_last_of_several_holders_removes_the_lock(tmp_path):
    with locked(tmp_path / "x", shared=True):
        with locked(tmp_path / "x", shared=True):
            pass
        assert os.listdir(tmp_path) == [".x.firstlight.lock"]
    assert os.listdir(tmp_path) == []


def ended_process():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_what_a_killed_process_left_is_swept_by_the_next_that_writes_there(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    here, gone = files._machine(), ended_process()
    alive, elsewhere = f"{here}-{os.getpid()}-01234567", f"ffffff-{gone}-01234567"
    kept = [f".firstlight-{alive}.part", f".firstlight-{elsewhere}.part", f".{here}-{gone}-01234567.part"]
    left = [f".firstlight-{here}-{gone}-01234567.part", f"firstlight-{here}-{gone}-01234567-abc"]
    for name in (*kept, *left):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inner").touch()
    write_text(tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "b"])


def test_a_scratch_folder_goes_with_its_block(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as folder:
        assert folder.is_dir()
        files._swept.clear()
        files.sweep(tmp_path)  # as another process of this machine would
        assert folder.is_dir()
    assert os.listdir(tmp_path) == []


def test_a_lock_that_was_swept_while_one_waited_for_it_is_taken_anew(tmp_path):
    lock, order = tmp_path / ".x.firstlight.lock", []

    def second():
        with locked(tmp_path / "x"):
            order.append(lock.exists())

    with locked(tmp_path / "x"):
        waiting = threading.Thread(target=second)
        waiting.start()
        lock.unlink()
    waiting.join()
    assert order == [True]


HOLDER = """
import sys, time
from pathlib import Path
from firstlight._internal import files
files.SIGN_SECONDS = 0.1
with files.locked(Path(sys.argv[1]), patience=1.0):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_elsewhere(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_holder_that_is_stopped_loses_its_lock_and_one_that_is_slow_does_not(tmp_path):
    path, taken = tmp_path / "x", threading.Event()

    def wait():
        with locked(path, patience=4.0):
            taken.set()

    with held_elsewhere(path) as holder:
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not taken.wait(6.0)  # longer than the patience: its signs keep the lock
        holder.send_signal(signal.SIGSTOP)
        assert taken.wait(60.0)
        waiting.join()
        with locked(path, patience=1.0):  # nor does it keep the next from the lock
            pass
        holder.send_signal(signal.SIGCONT)
        holder.communicate("end\n", timeout=60)
        assert holder.returncode == 0


def test_a_holder_that_ends_gives_the_lock_on_at_once(tmp_path):
    with held_elsewhere(tmp_path / "x") as holder:
        holder.stdin.write("end\n")
        holder.stdin.flush()
        with locked(tmp_path / "x", patience=600.0):
            assert os.listdir(tmp_path) == [".x.firstlight.lock"]
