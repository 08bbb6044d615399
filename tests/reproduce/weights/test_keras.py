"""Weights of TensorFlow.js models: bytes to tensors, and Keras' arithmetic in ours."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from reference.keras_layers import batch_norm, convolution
from reproduce.weights.resnet50 import convolution_with_batch_norm, tfjs_weights


def write_model(folder, arrays, *, cut=5, **changes):
    """Write a model of one group, cut into two shards in the middle of a weight."""
    content = b"".join(a.astype("<f4").tobytes() for a in arrays.values())
    (folder / "s1.bin").write_bytes(content[:cut])
    (folder / "s2.bin").write_bytes(content[cut:])
    entries = [{"name": k, "shape": list(a.shape), "dtype": "float32"} for k, a in arrays.items()]
    entries[0].update(changes)
    manifest = [{"paths": ["s1.bin", "s2.bin"], "weights": entries}]
    (folder / "model.json").write_text(json.dumps({"weightsManifest": manifest}))
    return folder


ARRAYS = {"a/kernel": np.arange(12.0).reshape(2, 3, 2), "a/bias": np.array([0.5, -1.0]), "b": np.array(3.0)}


def test_weights_are_cut_out_of_the_joined_shards(tmp_path):
    weights = tfjs_weights(write_model(tmp_path, ARRAYS))
    assert list(weights) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert weights[name].dtype == torch.float32
        assert np.array_equal(weights[name].numpy(), array)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "s2.bin").unlink(), "shard 's2.bin'"),
        (lambda f: (f / "s2.bin").write_bytes(b"1234567"), "end within"),
        (lambda f: (f / "s2.bin").open("ab").write(b"1234"), "the manifest lists 60"),
        (lambda f: (f / "model.json").unlink(), "has no model.json"),
        (lambda f: (f / "model.json").write_text("{"), "manifest is broken"),
        (lambda f: (f / "model.json").write_text("{}"), "manifest is broken"),
        (lambda f: (f / "model.json").write_text('{"weightsManifest": [3]}'), "manifest is broken"),
        (lambda f: write_model(f, ARRAYS, dtype="uint8"), "is uint8"),
        (lambda f: write_model(f, ARRAYS, quantization={"scale": 1}), "quantised"),
        (lambda f: write_model(f, ARRAYS, shape=[-1, 2]), "manifest is broken"),
        (lambda f: write_model(f, ARRAYS | {"b": np.array(np.nan)}), "NaN or infinite weights in 'b'"),
    ],
)
def test_damage_is_refused_in_words(tmp_path, damage, message):
    damage(write_model(tmp_path, ARRAYS))
    with pytest.raises(InvalidInput, match=message):
        tfjs_weights(tmp_path)


def test_a_shard_outside_the_folder_is_refused(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "s1.bin").write_bytes(b"1234")
    entry = {"name": "a", "shape": [1], "dtype": "float32"}
    manifest = [{"paths": ["../s1.bin"], "weights": [entry]}]
    (inner / "model.json").write_text(json.dumps({"weightsManifest": manifest}))
    with pytest.raises(InvalidInput, match=r"shard '\.\./s1\.bin'"):
        tfjs_weights(inner)


@given(
    n=st.integers(1, 2),
    c=st.integers(1, 3),
    h=st.integers(3, 6),
    w=st.integers(3, 6),
    kernel=st.integers(1, 3),
    outputs=st.integers(1, 3),
    stride=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_converted_layers_compute_what_keras_computes(n, c, h, w, kernel, outputs, stride, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, h, w, c))
    keras = {
        "conv/kernel": rng.normal(size=(kernel, kernel, c, outputs)),
        "conv/bias": rng.normal(size=outputs),
        "bn/gamma": rng.normal(size=outputs),
        "bn/beta": rng.normal(size=outputs),
        "bn/moving_mean": rng.normal(size=outputs),
        "bn/moving_variance": rng.uniform(0, 2, size=outputs),
    }
    out = convolution(x, keras["conv/kernel"], keras["conv/bias"], stride=stride)
    statistics = [keras[f"bn/{k}"] for k in ("gamma", "beta", "moving_mean", "moving_variance")]
    expected = batch_norm(out, *statistics, epsilon=1e-3)
    tensors = {k: torch.from_numpy(v) for k, v in keras.items()}
    state = convolution_with_batch_norm(tensors, "conv", "bn", conv_key="0", bn_key="1")
    ours = torch.nn.Sequential(
        torch.nn.Conv2d(c, outputs, kernel, stride=stride, bias=False),
        torch.nn.BatchNorm2d(outputs, eps=1e-3),
    )
    ours = ours.double().eval()
    ours.load_state_dict({**state, "1.num_batches_tracked": torch.tensor(0)})
    got = ours(torch.from_numpy(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
