"""Files made by hand to deceive a reader: special files, bombs, pickles, lengths, nesting, names.

Each must be refused in one line, or, where it says so, be read as if nothing were strange.
"""

import gzip
import io
import json
import os
import pickle
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from firstlight._internal.files import seal_of
from firstlight.data import load
from firstlight.data.cache import read_cache
from firstlight.data.fetching.archives import unpack
from fuzz import originals
from fuzz.judge import Case
from fuzz.originals import KINDS, SPEC, digest
from reference.onnx_files import field, varint

NESTED = b"[" * 100_000
ZEROS = 100 << 20
"""Bytes that a bomb unfolds to; they deflate to a thousandth."""

Make = Callable[[Path], object]


def lies(folder: Path) -> list[Case]:
    """All lies; intact files are written below `folder` first."""
    cases = [
        *_special_files(folder), *_nesting(folder), *_bombs(), *_pickles(folder), *_headers(), *_archives(folder),
        *_forged(folder), *_names(),
    ]  # fmt: skip
    assert len({(case.group, case.name) for case in cases}) == len(cases)
    return cases


def refused(group: str, name: str, prepare: Make, read: Callable[[Path], Any]) -> Case:
    return Case(
        group=group,
        name=name,
        prepare=prepare,
        read=lambda folder: digest(read(folder)),
        expected="",
    )


def raw(name: str, content: bytes) -> Make:
    return lambda folder: (folder / name).write_bytes(content)


def kind_folder(folder: Path, name: str) -> tuple[Make, list[str]]:
    """How to write intact files of a kind, and what they are called."""
    place = folder / name
    place.mkdir(parents=True)
    KINDS[name].write(place)
    files = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file() and p.suffix != ".lock")
    return KINDS[name].write, files


# ---------------------------------------------------------------- what is no regular file

SPECIAL: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "empty file": lambda path: path.touch(),
}


def _special_files(folder: Path) -> Iterator[Case]:
    """Each file of each format, replaced by something else.

    What is not there at all is no lie: Gram parts and checkpoints are then computed again, and a ledger is new.
    """
    for group, kind in KINDS.items():
        write, files = kind_folder(folder / "special", group)
        expected = kind.read(folder / "special" / group)
        for file in files[:1] if group in ("PNG", "JPEG", "GIF", "BMP", "CSV and PPM") else files:
            for name, make in SPECIAL.items():

                def prepare(place: Path, file: str = file, make: Any = make, write: Any = write) -> None:
                    write(place)
                    (place / file).unlink()
                    make(place / file)

                anew = {
                    "Gram parts": expected,
                    "training checkpoint": expected,
                    "ledger": digest([]) if name.startswith("link to") else "",
                }
                yield Case(
                    group="special file",
                    name=f"{name} as {file} ({group})",
                    prepare=prepare,
                    read=kind.read,
                    expected=anew.get(group, ""),
                )


# ---------------------------------------------------------------- nesting


def _nesting(folder: Path) -> Iterator[Case]:
    places = {
        "run folder": f"{SPEC.id}/run.json",
        "saved machine": "machine/machine.json",
        "cached data set": "toy/manifest.json",
        "TensorFlow.js": "model.json",
        "ledger": "ledger.json",
    }
    for group, file in places.items():
        for name, content in {
            "lists": NESTED,
            "objects": b'{"a":' * 100_000,
            "closed": NESTED + b"]" * 100_000,
            "digits": b'{"x": ' + b"9" * 5_000 + b"}",
            "no UTF-8": b'{"x": "\xff"}',
            "a list": b"[]",
            "null": b"null",
        }.items():

            def prepare(place: Path, group: str = group, file: str = file, content: bytes = content) -> None:
                KINDS[group].write(place)
                (place / file).write_bytes(content)

            yield Case(
                group="nesting",
                name=f"{name} in {file}",
                prepare=prepare,
                read=KINDS[group].read,
                expected="",
            )
    header = b'{"a":' * 100_000
    content = struct.pack("<Q", len(header)) + header
    yield refused(
        "nesting", "header of safetensors", raw("w.safetensors", content), KINDS["safetensors"].read
    )
    message = b""
    for _ in range(2_000):
        message = field(7, message)
    yield Case(
        group="nesting",
        name="messages of ONNX",  # deeper ones are no tensors
        prepare=raw("m.onnx", message),
        read=KINDS["ONNX"].read,
        expected=digest({}),
    )


# ---------------------------------------------------------------- bombs


def _bombs() -> Iterator[Case]:
    zeros = bytes(ZEROS)

    def zipped(name: str, member: str, *, times: int = 1) -> Make:
        def prepare(folder: Path) -> None:
            with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
                for i in range(times):
                    archive.writestr(member.format(i), zeros[: ZEROS // times])

        return prepare

    def tarred(name: str, mode: Any, size: int) -> Make:
        def prepare(folder: Path) -> None:
            with tarfile.open(folder / name, mode) as archive:
                member = tarfile.TarInfo("a/x.png")
                member.size = size
                archive.addfile(member, io.BytesIO(bytes(size)))

        return prepare

    def after_the_end(folder: Path) -> None:
        (folder / "x.tar.gz").write_bytes(gzip.compress(bytes(2 * ZEROS)))

    yield refused("bomb", "zip", zipped("x.zip", "a/x.png"), KINDS["zip"].read)
    yield refused("bomb", "zip of many", zipped("x.zip", "a/{}.png", times=200), KINDS["zip"].read)
    yield refused("bomb", "npz", zipped("x.npz", "x.npy"), KINDS["npz"].read)
    yield refused("bomb", "torch", zipped("w.pt", "w/data/0"), KINDS["torch checkpoint"].read)
    yield refused("bomb", "idx.gz", raw("x-idx3-ubyte.gz", gzip.compress(zeros)), KINDS["idx, gzipped"].read)
    yield refused("bomb", "tar.gz", tarred("x.tar.gz", "w:gz", ZEROS), KINDS["tar.gz"].read)
    yield refused("bomb", "tar.xz", tarred("x.tar.xz", "w:xz", ZEROS), lambda f: load(f / "x.tar.xz", None).x)
    yield refused(
        "bomb", "tar.bz2", tarred("x.tar.bz2", "w:bz2", ZEROS), lambda f: load(f / "x.tar.bz2", None).x
    )
    yield refused("bomb", "nothing but zeros in tar.gz", after_the_end, KINDS["tar.gz"].read)
    for side in (10_000, 30_000, 2**31 - 1):
        yield refused(
            "bomb", f"PNG of side {side}", _one_picture(png(side, side, bytes(1000))), originals.pictures_of
        )
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(80 << 20)))
    yield refused(
        "bomb", "text of a PNG", _one_picture(png(8, 8, bytes(200), extra=text)), originals.pictures_of
    )
    profile = chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(80 << 20)))
    yield refused(
        "bomb", "profile of a PNG", _one_picture(png(8, 8, bytes(200), extra=profile)), originals.pictures_of
    )
    packed = zlib.compress(struct.pack("<II", 14, ZEROS) + bytes(ZEROS))
    mat = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed
    yield refused("bomb", "MAT", raw("train_32x32.mat", mat), KINDS["MAT"].read)


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int, height: int, body: bytes, *, extra: bytes = b"") -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


def _one_picture(content: bytes) -> Make:
    def prepare(folder: Path) -> None:
        for label in "ab":
            (folder / label).mkdir()
            (folder / label / "0.png").write_bytes(content)

    return prepare


# ---------------------------------------------------------------- pickles


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def _pickles(folder: Path) -> Iterator[Case]:
    mark = folder / "mark"
    attacks = {
        "os.system": Call(os.system, f"touch {mark}"),
        "eval": Call(eval, f"open({str(mark)!r}, 'w')"),
        "exec": Call(exec, f"open({str(mark)!r}, 'w')"),
        "getattr": Call(getattr, Path, "unlink"),
        "bytearray": Call(bytearray, 4 << 30),
        "numpy.zeros": Call(np.zeros, 4 << 30),
        "torch.zeros": Call(torch.zeros, 4 << 30),
        "module": torch.nn.Linear(2, 2),
    }

    def read_and_look(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def reader(place: Path) -> Any:
            try:
                return read(place)
            finally:
                assert not mark.exists(), "code of the file was run"

        return reader

    for name, attack in attacks.items():
        content = {b"data": attack, b"labels": [0]}
        for protocol in (0, 2, 4):
            packed = pickle.dumps(content if name != "module" else attack, protocol)
            yield refused(
                "pickle",
                f"{name}, protocol {protocol}",
                raw("batch", packed),
                read_and_look(KINDS["CIFAR batch"].read),
            )
        for modern in (True, False):

            def save(place: Path, attack: Any = attack, modern: bool = modern) -> None:
                file = place / ("w.pt" if modern else "w.pth")
                torch.save({"state_dict": attack}, file, _use_new_zipfile_serialization=modern)

            reader = KINDS["torch checkpoint" if modern else "torch checkpoint, legacy"].read
            yield refused(
                "pickle", f"{name} for torch, {'zip' if modern else 'legacy'}", save, read_and_look(reader)
            )

        def objects(place: Path, attack: Any = attack) -> None:
            holder = np.empty(6, object)
            holder[:] = [attack] * 6
            np.savez(place / "x.npz", x=holder, y=np.zeros(6, np.int64))

        yield refused("pickle", f"{name} in npz", objects, read_and_look(KINDS["npz"].read))
    for name, content in {
        "memo of gigabytes": b"\x80\x02}r" + struct.pack("<I", 0x1FFFFFFF) + b".",
        "bytes of terabytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 42) + b"x.",
        "frame of exabytes": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"}.",
        "text of gigabytes": b"\x80\x02X" + struct.pack("<I", 0xFFFFFFFF) + b"x.",
        "long of gigabytes": b"\x80\x02\x8b" + struct.pack("<i", 0x7FFFFFFF) + b"x.",
        "negative long": b"\x80\x02\x8b" + struct.pack("<i", -5) + b"x.",
        "nested lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        "nested tuples": b"\x80\x02)" + b"\x85" * 100_000 + b".",
        "persistent object": b"\x80\x02(K\x01tQ.",
        "no dictionary": pickle.dumps([1, 2]),
        "array of another type": pickle.dumps({b"data": np.zeros((2, 3072)), b"labels": [0, 1]}),
        "array of a false shape": pickle.dumps({b"data": np.zeros(8, np.uint8)}, 2).replace(
            b"K\x08\x85", b"K\x09\x85"
        ),
    }.items():
        yield refused("pickle", name, raw("batch", content), KINDS["CIFAR batch"].read)


# ---------------------------------------------------------------- headers


def safetensors_file(header: Any, body: bytes = bytes(12), *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def _headers() -> Iterator[Case]:
    def tensor(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
        return {"0.bias": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}

    for name, content in {
        "length beyond the file": safetensors_file(b"{}", length=1 << 40),
        "length of exabytes": safetensors_file(b"{}", length=(1 << 64) - 1),
        "length of zero": safetensors_file(b"", length=0),
        "offsets beyond the file": safetensors_file(tensor([3], [0, 1 << 40])),
        "offsets backwards": safetensors_file(tensor([3], [12, 0])),
        "negative offsets": safetensors_file(tensor([3], [-12, 0])),
        "a shape of exabytes": safetensors_file(tensor([1 << 31, 1 << 31, 1 << 31], [0, 12])),
        "an overflowing shape": safetensors_file(tensor([1 << 62, 4], [0, 12])),
        "a negative shape": safetensors_file(tensor([-3], [0, 12])),
        "an unknown type": safetensors_file(tensor([3], [0, 12], "F33")),
        "words as shape": safetensors_file(tensor("three", [0, 12])),
        "a header of spaces": safetensors_file(b" " * 200_000_000),
        "a name twice": safetensors_file(
            b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"a":{"dtype":"F32","shape":[3],'
            b'"data_offsets":[0,12]}}'
        ),
    }.items():
        yield refused(
            "header", f"safetensors: {name}", raw("w.safetensors", content), KINDS["safetensors"].read
        )
    for name, sides in {
        "gigabytes": (1 << 31, 28, 28),
        "an overflow": (1 << 31, 1 << 31, 4),
        "more than there is": (5, 8, 8),
        "less than there is": (3, 8, 8),
    }.items():
        content = bytes([0, 0, 8, 3]) + struct.pack(">III", *sides) + bytes(256)
        yield refused("header", f"idx: {name}", raw("x-idx3-ubyte", content), KINDS["idx"].read)
    yield refused(
        "header", "idx: 255 axes", raw("x-idx3-ubyte", bytes([0, 0, 8, 255]) + bytes(90)), KINDS["idx"].read
    )
    yield from _npy_headers()
    for name, content in {
        "a length beyond the file": varint(7 << 3 | 2) + varint(1 << 40) + b"x",
        "an endless number": varint(7 << 3) + b"\xff" * 100,
        "an unknown wire type": bytes([7 << 3 | 7]),
        "a shape of exabytes": field(
            7, field(5, field(1, 1 << 62) + field(2, 1) + field(8, b"a") + field(9, bytes(8)))
        ),
        "a name of other bytes": field(
            7, field(5, field(1, 1) + field(2, 1) + field(8, b"\xff") + field(9, bytes(4)))
        ),
    }.items():
        yield refused("header", f"ONNX: {name}", raw("m.onnx", content), KINDS["ONNX"].read)
    yield from _tfjs()
    for name, table in {
        "no columns": b"a;b\n1;2\n",
        "a zero byte": b"Filename;ClassId\na.ppm\0;7\n",
        "a field of megabytes": b"Filename;ClassId\n" + b"a" * 1_000_000 + b";7\n",
        "a path to elsewhere": b"Filename;ClassId\n../../../../etc/passwd;7\n",
        "an unknown class": b"Filename;ClassId\na.ppm;4711\n",
        "a missing class": b"Filename;ClassId\na.ppm\n",
        "no text": b"Filename;ClassId\n\xff\xfe;7\n",
    }.items():

        def prepare(folder: Path, table: bytes = table) -> None:
            originals.write_gtsrb(folder)
            (folder / "GT-final_test.csv").write_bytes(table)

        yield refused("header", f"CSV: {name}", prepare, KINDS["CSV and PPM"].read)


def _npy_headers() -> Iterator[Case]:
    def npz(header: bytes, version: bytes = b"\x01\x00") -> Make:
        size = struct.pack("<H" if version[0] == 1 else "<I", len(header))
        body = b"\x93NUMPY" + version + size + header + bytes(64)

        def prepare(folder: Path) -> None:
            with zipfile.ZipFile(folder / "x.npz", "w") as archive:
                archive.writestr("x.npy", body)
                archive.writestr("y.npy", body)

        return prepare

    def words(dtype: str, shape: str) -> bytes:
        return f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}\n".encode()

    for name, make in {
        "a shape of terabytes": npz(words("'|u1'", "(1099511627776,)")),
        "a shape of gigabytes": npz(words("'|u1'", "(4294967296,)")),
        "a negative shape": npz(words("'|u1'", "(-64,)")),
        "an overflowing shape": npz(words("'|u1'", "(4611686018427387904, 8)")),
        "objects": npz(words("'|O'", "(8,)")),
        "a type of megabytes": npz(words("'|V2000000000'", "(1,)")),
        "an expression": npz(b"__import__('os').getpid()\n"),
        "nesting": npz(b"(" * 30_000 + b"\n"),
        "nesting, version 2": npz(b"(" * 300_000 + b"\n", b"\x02\x00"),
        "version 9": npz(words("'|u1'", "(64,)"), b"\x09\x00"),
    }.items():
        yield refused("header", f"npy: {name}", make, KINDS["npz"].read)


def _tfjs() -> Iterator[Case]:
    entry = {"name": "a", "shape": [2], "dtype": "float32"}
    for name, group in {
        "a path to elsewhere": {"paths": ["../../../../etc/passwd"], "weights": [entry]},
        "an absolute path": {"paths": ["/etc/passwd"], "weights": [entry]},
        "a device": {"paths": ["/dev/zero"], "weights": [entry]},
        "a shape of exabytes": {"paths": ["shard1.bin"], "weights": [{**entry, "shape": [1 << 62]}]},
        "a negative shape": {"paths": ["shard1.bin"], "weights": [{**entry, "shape": [-1]}]},
        "a zero byte in a name": {"paths": ["a\0b"], "weights": [entry]},
        "a very long name": {"paths": ["a" * 5000], "weights": [entry]},
        "words for a list": {"paths": "shard1.bin", "weights": "none"},
        "another type": {"paths": ["shard1.bin"], "weights": [{**entry, "dtype": "int8"}]},
    }.items():

        def prepare(folder: Path, group: Any = group) -> None:
            originals.write_tfjs(folder)
            (folder / "model.json").write_text(json.dumps({"weightsManifest": [group]}))

        yield refused("header", f"TensorFlow.js: {name}", prepare, KINDS["TensorFlow.js"].read)


# ---------------------------------------------------------------- archives


def _archives(folder: Path) -> Iterator[Case]:
    picture = originals.class_folders("bmp")["dog/0.bmp"]
    names = (
        "../out.bmp",
        "/tmp/out.bmp",
        "a/../../out.bmp",
        "..\\out.bmp",
        "C:\\out.bmp",
        "a/\0.bmp",
        "a" * 5000,
    )
    for name in names:

        def zipped(place: Path, name: str = name) -> None:
            with zipfile.ZipFile(place / "x.zip", "w") as archive:
                archive.writestr("a/0.bmp", picture)
                member = zipfile.ZipInfo("b/0.bmp")
                member.filename = name
                archive.writestr(member, picture)

        def tarred(place: Path, name: str = name) -> None:
            with tarfile.open(place / "x.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
                member = tarfile.TarInfo(name)
                member.size = len(picture)
                archive.addfile(member, io.BytesIO(picture))

        if "\0" not in name:  # zipfile ends names there, and so writes a harmless one
            yield refused("archive", f"zip: {name[:20]!r}", zipped, KINDS["zip"].read)
        yield refused("archive", f"tar: {name[:20]!r}", tarred, KINDS["tar.gz"].read)
    for name, type, target in (
        ("symbolic link", tarfile.SYMTYPE, "/etc/passwd"),
        ("hard link", tarfile.LNKTYPE, "/etc/passwd"),
        ("device", tarfile.CHRTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    ):

        def special(place: Path, type: bytes = type, target: str = target) -> None:
            with tarfile.open(place / "x.tar.gz", "w:gz") as archive:
                member = tarfile.TarInfo("a/0.bmp")
                member.type, member.linkname = type, target
                archive.addfile(member)

        yield refused("archive", f"tar: {name}", special, KINDS["tar.gz"].read)

    def linked(place: Path) -> None:
        with zipfile.ZipFile(place / "x.zip", "w") as archive:
            member = zipfile.ZipInfo("a/0.bmp")
            member.external_attr = 0o120777 << 16
            archive.writestr(member, "/etc/passwd")

    def encrypted(place: Path) -> None:
        originals.write_zip(place)
        content = bytearray((place / "x.zip").read_bytes())
        content[content.find(b"PK\x01\x02") + 8] |= 1
        (place / "x.zip").write_bytes(content)

    def broken_header(place: Path) -> None:
        """Without compression nothing but the header's own checksum shows that members are lost."""
        with tarfile.open(place / "x.tar", "w") as archive:
            for name, content in originals.class_folders("bmp").items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            last = archive.getmembers()[-1].offset
        content = bytearray((place / "x.tar").read_bytes())
        content[last] ^= 1
        (place / "x.tar").write_bytes(content)

    yield refused("archive", "zip: symbolic link", linked, KINDS["zip"].read)
    yield refused("archive", "zip: encrypted", encrypted, KINDS["zip"].read)
    yield refused(
        "archive", "tar: a damaged header", broken_header, lambda place: load(place / "x.tar", None).x
    )
    yield refused(
        "archive",
        "zip: a folder and a file of one name",
        lambda place: _zip(place, ["a", "a/0.bmp"]),
        lambda place: unpack(place / "x.zip", place / "out"),
    )


def _zip(place: Path, names: list[str]) -> None:
    with zipfile.ZipFile(place / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, b"x")


# ---------------------------------------------------------------- forged seals


def _forged(folder: Path) -> Iterator[Case]:
    """Whoever computes a new checksum still builds nothing foreign, and ends nothing in a traceback."""
    changes: dict[str, dict[str, Any]] = {
        "a foreign type": {"result": {"$result": "os:system", "fields": {"command": "true"}}},
        "a type that is no result": {
            "result": {"$result": "firstlight._internal.store.runs:Store", "fields": {}}
        },
        "a type without a module": {"result": {"$result": "firstlight.", "fields": {}}},
        "a type that is a number": {"result": {"$result": 5, "fields": {}}},
        "fields that are none": {"result": {"$result": "firstlight.training.loop:History", "fields": 5}},
        "an array that is missing": {"result": {"$array": "nowhere"}},
        "a number as tuple": {"result": {"$tuple": 5}},
        "a word as number": {"result": {"$float": "many"}},
        "words as seconds": {"wall_seconds": "long"},
        "a list as time": {"finished": []},
        "a number as kind": {"what": 5},
        "another run": {"id": "0" * 16},
    }
    for name, change in changes.items():

        def prepare(place: Path, change: dict[str, Any] = change) -> None:
            originals.write_run(place)
            file = place / SPEC.id / "run.json"
            body = json.loads(file.read_text()) | change
            del body["sha256"]
            body["sha256"] = seal_of(body)
            file.write_text(json.dumps(body))

        yield refused("forged", f"run: {name}", prepare, KINDS["run folder"].read)
    for name, files in {
        "no list": [],
        "a path to elsewhere": {"../../elsewhere": {"sha256": "0", "n": 1}},
        "no checksum": {"train.safetensors": {}},
        "a number": {"train.safetensors": 5},
    }.items():

        def manifest(place: Path, files: Any = files) -> None:
            originals.write_cached(place)
            file = place / "toy" / "manifest.json"
            body = json.loads(file.read_text()) | {"files": files}
            del body["sha256"]
            body["sha256"] = seal_of(body)
            file.write_text(json.dumps(body))

        yield refused("forged", f"cache: {name}", manifest, lambda place: _cached(place).x)


def _cached(place: Path) -> Any:
    os.environ["FIRSTLIGHT_DATA"] = str(place)
    return read_cache("toy", "train")


# ---------------------------------------------------------------- names


def _names() -> Iterator[Case]:
    """Strange names are no reason to refuse anything: all of these are read."""
    for name in (
        b"\xff\xfe", b"[bold]x[red]", b"\x1b[31m", b"\x1b]0;title\x07", b"<img src=x onerror=alert(1)>", b"=cmd()",
        b"a\nb", b"'; drop table", b"%s%n", b" ", "\u202etxt".encode(), b"-rf", b"CON", "é".encode("latin1"),
    ):  # fmt: skip

        def prepare(folder: Path, name: bytes = name) -> None:
            for label in (b"a", name):
                place = folder / os.fsdecode(b"set" + name) / os.fsdecode(label)
                place.mkdir(parents=True)
                for i in range(2):
                    one = Image.frombytes("L", (4, 4), random.Random(i).randbytes(16))
                    one.save(place / os.fsdecode(name + b"%d.png" % i), format="png")

        def read(folder: Path, name: bytes = name) -> str:
            images = load(folder / os.fsdecode(b"set" + name), None)
            return digest([len(images), sorted(images.classes)])

        expected = digest([4, sorted(["a", os.fsdecode(name)])])
        yield Case(group="name", name=repr(name), prepare=prepare, read=read, expected=expected)
