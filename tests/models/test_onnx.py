"""ONNX files become networks that compute what they say, or are refused in one line."""

import random
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import firstlight
from firstlight._internal.errors import InvalidInput
from firstlight.models.fresh_weights import fresh_initial
from firstlight.models.onnx.network import load_onnx
from firstlight.models.onnx.operations import operation
from firstlight.models.onnx.reading import fields
from models_and_inputs import IMAGES, Mixed, PatchTransformer
from reference.onnx_files import field, write_onnx

FILES = (
    Path(__file__).parent / "onnx"
)  # written by both of PyTorch's exporters, with a free or a fixed first axis
MODELS = {"mixed": Mixed, "transformer": lambda: PatchTransformer(linear=False)}
BATCH = [None, 3, 12, 12]


def original(name):
    torch.manual_seed(0)
    return MODELS[name]().eval()


@pytest.mark.parametrize("how", ["legacy", "dynamo", "one_image"])
@pytest.mark.parametrize("name", MODELS)
def test_exported_networks_compute_what_the_model_did(name, how):
    network = firstlight.load_model(FILES / f"{name}_{how}.onnx")
    with torch.no_grad():
        assert torch.allclose(network(IMAGES), original(name)(IMAGES), atol=1e-6)
    assert not network.training


@pytest.mark.parametrize("how", ["legacy", "one_image"])
def test_an_inspection_of_the_file_says_what_that_of_the_model_says(how):
    network, model = firstlight.load_model(FILES / f"mixed_{how}.onnx"), original("mixed")
    ours, theirs = (firstlight.patch_gradients(one, IMAGES, show=False) for one in (network, model))
    assert [layer.name for layer in ours.layers] == ["first", "grouped", "answer"]
    assert list(ours.skipped) == ["up"]
    # the exporter folds the normalisation into the first layer, whose gradients and filters are scaled by it
    for name in ("grouped", "answer"):
        assert torch.allclose(ours[name].agop, theirs[name].agop, rtol=1e-3, atol=1e-7)
    fresh = fresh_initial(network)
    assert not torch.equal(fresh.grouped.weight, network.grouped.weight)


def one_convolution(path, weight, *, shape=BATCH, nodes=(), **attributes):
    steps = [("Conv", ["x", "w"], ["y" if not nodes else "c"], attributes), *nodes]
    return write_onnx(path / "m.onnx", steps, inputs={"x": shape}, tensors={"w": weight})


@pytest.fixture
def weight():
    return torch.randn(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))


def test_padding_that_depends_on_the_size_is_the_one_of_the_definition(tmp_path, weight):
    path = one_convolution(tmp_path, weight, auto_pad="SAME_UPPER", strides=[2, 2])
    expected = F.conv2d(F.pad(IMAGES, (1, 1, 1, 1)), weight, stride=2)  # 6 places need 14 pixels
    assert torch.allclose(load_onnx(path)(IMAGES), expected, atol=1e-6)
    path = one_convolution(tmp_path, weight, pads=[0, 1, 3, 2])
    expected = F.conv2d(F.pad(IMAGES, (1, 2, 0, 3)), weight)
    assert torch.allclose(load_onnx(path)(IMAGES), expected, atol=1e-6)


def test_half_and_double_precision_become_float32(tmp_path, weight):
    for stored in (weight.half(), weight.double()):
        network = load_onnx(one_convolution(tmp_path, stored))
        (parameter,) = network.parameters()
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, stored.float())


def test_images_with_the_channels_last_are_turned(tmp_path, weight):
    nodes = [
        ("Transpose", ["x"], ["t"], {"perm": [0, 3, 1, 2]}),
        ("Conv", ["t", "w"], ["y"], {}),
    ]
    shape = {"x": [None, 12, 12, 3]}
    network = load_onnx(write_onnx(tmp_path / "m.onnx", nodes, inputs=shape, tensors={"w": weight}))
    assert torch.allclose(network(IMAGES), F.conv2d(IMAGES, weight), atol=1e-6)


def test_several_outputs_come_by_name_and_a_shared_layer_is_one_layer(tmp_path):
    weight = torch.randn(3, 3, 1, 1, generator=torch.Generator().manual_seed(1))
    nodes = [("Conv", ["x", "w"], ["a"]), ("Relu", ["a"], ["b"]), ("Conv", ["b", "w"], ["y"])]
    path = write_onnx(
        tmp_path / "m.onnx", nodes, inputs={"x": [1, 3, 12, 12]}, outputs=("y", "a"), tensors={"w": weight}
    )
    network = load_onnx(path)
    outputs = network(IMAGES)
    first = F.conv2d(IMAGES, weight)
    assert torch.allclose(outputs["a"], first, atol=1e-6)
    assert torch.allclose(outputs["y"], F.conv2d(first.relu(), weight), atol=1e-6)
    assert sum(p.numel() for p in network.parameters()) == weight.numel()


X = torch.arange(24.0).reshape(2, 3, 4)
OPERATIONS = {
    "Softmax, all axes from the first on": ("Softmax", {"axis": 1}, 11, [X], X.flatten(1).softmax(1).reshape(2, 3, 4)),
    "Softmax, one axis": ("Softmax", {"axis": 1}, 13, [X], X.softmax(1)),
    "Slice, backwards to the beginning": (
        "Slice", {}, 17, [X, *map(torch.tensor, ([-1], [-99], [2], [-2]))], X[:, :, [3, 1]],
    ),
    "Slice by attributes": ("Slice", {"starts": [1], "ends": [3], "axes": [1]}, 9, [X], X[:, 1:3]),
    "Gather from the end": ("Gather", {"axis": 1}, 17, [X, torch.tensor(-1)], X[:, -1]),
    "Reshape that keeps a side": ("Reshape", {}, 17, [X, torch.tensor([0, -1])], X.reshape(2, 12)),
    "Unsqueeze from the end": ("Unsqueeze", {}, 17, [X, torch.tensor([-1, 0])], X[None, ..., None]),
    "ReduceMean of all": ("ReduceMean", {"keepdims": 0}, 17, [X], X.mean()),
    "Clip below": ("Clip", {}, 17, [X, torch.tensor(3.0)], X.clamp(min=3)),
    "Div of whole numbers": ("Div", {}, 17, [torch.tensor([7, -7]), torch.tensor(2)], torch.tensor([3, -3])),
    "Gemm": (
        "Gemm", {"transA": 1, "alpha": 2.0, "beta": 0.5}, 17, [X[0], X[1][:, :2], torch.ones(2)],
        2 * X[0].T @ X[1][:, :2] + 0.5,
    ),
    "Split in three": ("Split", {"axis": 1, "n_outputs": 3}, 17, [X], X.split(1, 1)),
    "Pad, edges first": ("Pad", {}, 17, [X, torch.tensor([0, 1, 0, 0, 0, 2])], F.pad(X, (0, 2, 1, 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_do_what_their_definition_says(name):
    kind, attributes, opset, inputs, expected = OPERATIONS[name]
    result = operation(kind, attributes, opset)(*inputs)
    for one, other in zip(
        result if isinstance(result, tuple) else [result],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        assert torch.equal(one, other) or torch.allclose(one, other)


def refused(path, match):
    with pytest.raises(InvalidInput, match=match) as caught:
        load_onnx(path)(IMAGES)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_measured_is_refused_in_one_line(tmp_path, weight):
    path = tmp_path / "m.onnx"
    shape = {"x": BATCH}
    refused(write_onnx(path, [("LSTM", ["x"], ["y"])], inputs=shape), "operation LSTM is not known")
    other = [("Relu", ["x"], ["y"], {"domain": "com.maker"})]
    refused(write_onnx(path, other, inputs=shape), "operation com.maker.Relu is not known")
    two = write_onnx(path, [("Add", ["x", "z"], ["y"])], inputs={"x": BATCH, "z": BATCH})
    refused(two, "must take one input, images; it takes x, z")
    refused(one_convolution(tmp_path, weight, shape=[4, 3, 12, 12]), "exported for 4")
    refused(write_onnx(path, [("Relu", ["nothing"], ["y"])], inputs=shape), "needs 'nothing'")
    pooled = [("MaxPool", ["x"], ["a", "places"], {"kernel_shape": [2, 2]}), ("Relu", ["places"], ["y"])]
    refused(write_onnx(path, pooled, inputs=shape), "needs 'places'")
    graph = field(5, field(1, 4) + field(2, 1) + field(8, "w") + field(14, 1))
    path.write_bytes(field(7, graph))
    refused(path, "must lie in the ONNX file; they lie in another one")
    with pytest.raises(InvalidInput, match="Leave out `architecture`"):
        firstlight.load_model(path, architecture="lenet")


@pytest.mark.parametrize(
    "nodes",
    [
        [("ConstantOfShape", ["s"], ["y"])],
        [("ConstantOfShape", ["p"], ["a"]), ("Transpose", ["a"], ["b"]), ("Add", ["a", "b"], ["y"])],
        [("ConstantOfShape", ["p"], ["a"]), ("Transpose", ["a"], ["b"]), ("MatMul", ["b", "a"], ["y"])],
        [("Tile", ["x", "t"], ["y"])],
        [("Pad", ["x", "q"], ["y"])],
    ],
)
def test_small_files_cannot_ask_for_any_memory(tmp_path, nodes):
    tensors = {
        "s": torch.tensor([1 << 40]), "p": torch.tensor([1, 1 << 20]), "t": torch.tensor([1, 1, 1 << 20, 9]),
        "q": torch.tensor([0, 0, 1 << 20, 0, 0, 0, 0, 1 << 10]),
    }  # fmt: skip
    path = write_onnx(tmp_path / "m.onnx", nodes, inputs={"x": BATCH}, tensors=tensors)
    refused(path, "which no network on images needs")


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path):
    whole = (FILES / "mixed_dynamo.onnx").read_bytes()
    generator = random.Random(0)
    path = tmp_path / "m.onnx"
    messages = []
    for turn in range(120):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(whole))] = generator.randrange(256)
        path.write_bytes(damaged[: generator.randrange(len(whole))] if turn % 4 == 0 else damaged)
        try:
            assert isinstance(load_onnx(path), nn.Module)
        except InvalidInput as error:
            messages.append(str(error))
    assert len(messages) > 40
    assert not any("\n" in message for message in messages)


def test_fields_are_views_of_the_message():
    message = memoryview(field(3, b"abc") + field(4, 300))
    assert [(number, bytes(v) if isinstance(v, memoryview) else v) for number, v in fields(message)] == [
        (3, b"abc"),
        (4, 300),
    ]
