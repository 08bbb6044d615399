import gzip
import io
import random
import tarfile
import zipfile

import pytest

from firstlight._internal.errors import InvalidInput
from firstlight.data.fetching.archives import unpack
from reference.data_files import tar_of


def test_regular_files_are_unpacked_with_their_folders(tmp_path):
    archive = tar_of(tmp_path / "a.tgz", {"one/two.txt": b"2", "three.txt": b"3"})
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/one/two.txt").read_bytes() == b"2"
    assert (tmp_path / "out/three.txt").read_bytes() == b"3"


def test_only_wanted_members_are_written(tmp_path):
    archive = tar_of(tmp_path / "a.tgz", {"a.png": b"2", "b.js": b"3"})
    unpack(archive, tmp_path / "out", wanted=lambda name: name.endswith(".png"))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.png"]


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil", "..\\evil", "C:\\evil", "\\evil"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_member_that_leaves_its_folder_is_refused(tmp_path, name, kind):
    archive = tmp_path / f"a.{kind}"
    if kind == "tar":
        tar_of(archive, {name: b"x"})
    else:
        with zipfile.ZipFile(archive, "w") as opened:
            opened.writestr(name, b"x")
    with pytest.raises(InvalidInput, match="outside its folder"):
        unpack(archive, tmp_path / "out", wanted=lambda name: False)
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    info = tarfile.TarInfo("innocent")
    info.type, info.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(info)
    with pytest.raises(InvalidInput, match="link or a device"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


def test_links_in_a_zip_are_refused(tmp_path):
    info = zipfile.ZipInfo("innocent")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as opened:
        opened.writestr(info, "/etc/passwd")
    with pytest.raises(InvalidInput, match="link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("kept", [0, 3, 40, 400])
def test_a_truncated_tar_is_refused(tmp_path, kept):
    noise = bytes((i * i * 31 + i // 7) % 256 for i in range(5000))
    archive = tar_of(tmp_path / "a.tgz", {"x": noise})
    archive.write_bytes(archive.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match="truncated or damaged"):
        unpack(archive, tmp_path / "out")


def test_a_truncated_zip_is_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("x", b"y" * 1000)
    (tmp_path / "a.zip").write_bytes(buffer.getvalue()[:-30])
    with pytest.raises(InvalidInput, match="truncated or damaged"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_a_changed_byte_in_a_compressed_tar_is_noticed(tmp_path):
    """The checksum of the compression follows the last member, where a reader of tar no longer looks."""
    content = random.Random(0).randbytes(600)
    packed = bytearray(gzip.compress(plain_tar({"a": content}), compresslevel=0, mtime=0))
    packed[packed.index(content)] ^= 1
    (tmp_path / "x.tar.gz").write_bytes(packed)
    with pytest.raises(InvalidInput, match="truncated or damaged"):
        unpack(tmp_path / "x.tar.gz", tmp_path / "out")


def test_a_damaged_header_does_not_pass_for_the_end_of_a_tar(tmp_path):
    raw = bytearray(plain_tar({"a": b"x" * 512, "b": b"y" * 512}))
    raw[1024] ^= 1
    (tmp_path / "x.tar").write_bytes(raw)
    with pytest.raises(InvalidInput, match="its members end before the file does"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


@pytest.mark.parametrize("names", [["a" * 5000], ["a", "a/b"], ["a/b", "a"]])
def test_names_that_no_disk_can_hold_are_refused(tmp_path, names):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    with pytest.raises(InvalidInput, match="truncated or damaged"):
        unpack(tmp_path / "x.zip", tmp_path / "out")


def plain_tar(members):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return raw.getvalue()
