"""Changes to a file or a folder, each drawn from a generator: accidents, and lengths that lie."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

LIES = (
    0,
    1,
    127,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)

Mutation = Callable[[bytes, random.Random], bytes]


def flip_bits(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.choice((0, 1, rng.randrange(len(raw)), len(raw) - 1))]


def append(raw: bytes, rng: random.Random) -> bytes:
    return raw + rng.choice((bytes(rng.randrange(1, 600)), rng.randbytes(40), raw))


def swap_blocks(raw: bytes, rng: random.Random) -> bytes:
    a, b, c, d = sorted(rng.randrange(len(raw) + 1) for _ in range(4))
    return raw[:a] + raw[c:d] + raw[b:c] + raw[a:b] + raw[d:]


def remove_block(raw: bytes, rng: random.Random) -> bytes:
    a, b = _block(raw, rng)
    return raw[:a] + raw[b:]


def repeat_block(raw: bytes, rng: random.Random) -> bytes:
    a, b = _block(raw, rng)
    return raw[:b] + raw[a:b] * rng.choice((1, 2, 50)) + raw[b:]


def overwrite_block(raw: bytes, rng: random.Random) -> bytes:
    a, b = _block(raw, rng)
    return raw[:a] + rng.choice((bytes(b - a), b"\xff" * (b - a), rng.randbytes(b - a))) + raw[b:]


def lie_about_a_length(raw: bytes, rng: random.Random) -> bytes:
    """Put a telling number where a length may stand, often in the header or the trailer."""
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice(LIES) % (1 << 8 * width)
    end = max(1, len(raw) - width)
    at = rng.choice((rng.randrange(min(end, 80)), rng.randrange(end), end - rng.randrange(min(end, 80))))
    packed = struct.pack("<Q", number)[:width]
    return raw[:at] + (packed if rng.random() < 0.5 else packed[::-1]) + raw[at + width :]


def change_a_digit(raw: bytes, rng: random.Random) -> bytes:
    """Headers in JSON and tables hold their numbers as text."""
    places = [i for i, byte in enumerate(raw) if 48 <= byte <= 57]
    if not places:
        return flip_bits(raw, rng)
    at = rng.choice(places)
    return raw[:at] + rng.choice((b"", b"-", b"9" * 12, b"1e99", b"%d" % rng.randrange(10))) + raw[at + 1 :]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits, flip_bits, flip_bits, truncate, append, swap_blocks, remove_block, repeat_block, overwrite_block,
    lie_about_a_length, lie_about_a_length, change_a_digit,
)  # fmt: skip


def mutate_folder(folder: Path, rng: random.Random, *, files_too: bool) -> str:
    """Change one file of a folder in place, or, with `files_too`, which files there are; say what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    file = rng.choice(files)
    if files_too and rng.random() < 0.08:
        other = rng.choice(files)
        if other != file and rng.random() < 0.5:
            shutil.copyfile(other, file)
            return f"{file.name} replaced by {other.name}"
        file.unlink()
        return f"{file.name} removed"
    mutation = rng.choice(MUTATIONS)
    raw = file.read_bytes()
    file.write_bytes(mutation(raw, rng))
    return f"{mutation.__name__} in {file.name}"


def _block(raw: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(raw))
    return start, min(len(raw), start + rng.choice((1, 4, 16, 100)))
