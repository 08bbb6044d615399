"""What real pipelines fit is stored and read back with the same strides, and computes the same bits."""

import dataclasses

import pytest
import torch
from torch import nn

from firstlight._internal.memory_layout import ALIGNMENT
from firstlight._internal.result import Result
from firstlight._internal.seeds import global_seed
from firstlight._internal.store import RunSpec, Store
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.kernels import ConvKernel, learn_metric
from firstlight.maths import PatchGeometry, image_pca, patch_pca
from firstlight.training import Recipe, Snapshots, train_once
from reproduce.studies.first_layer.patch_labels import PatchProjectionLabels
from reproduce.studies.learning_order.principal_components import (
    Amplification,
    ComponentProjection,
    ZCAWhitening,
)
from reproduce.studies.learning_order.separator_labels import SeparatorLabels

GEOMETRY = PatchGeometry.square(3)


def pictures(n=40, *, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, 6, 5, generator=generator, dtype=torch.float64).cumsum(-1)
    return ImageData(x.to(dtype), torch.arange(n) % 2, ("a", "b"))


def network(seed):
    """Weights in channels-last order, as users of convolutions on other devices have them."""
    with global_seed("weights", seed):
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    return model.to(memory_format=torch.channels_last)


def trained():
    recipe = Recipe(steps=6, batch_size=8, momentum=0.9, lr=0.01)
    return train_once(
        network, pictures(dtype=torch.float32), recipe, observe=lambda steps: [Snapshots(["0.weight"])]
    )


def rounds():
    data = pictures()
    y = nn.functional.one_hot(data.y, 2).double()
    return learn_metric(data.x[:30], y[:30], data.x[30:], y[30:], kernel=ConvKernel(depth=1), rounds=1)


PIPELINES = {
    "image pca": lambda: image_pca(pictures().x),
    "pca of few images": lambda: image_pca(pictures(7).x).truncated(3),
    "patch pca": lambda: patch_pca(pictures().x, GEOMETRY).truncated(5),
    "normalisation": lambda: ChannelNormalisation.fit(pictures()),
    "whitening": lambda: ZCAWhitening.fit(pictures()),
    "projection": lambda: ComponentProjection.fit(pictures(), 3),
    "amplification": lambda: Amplification.fit(pictures()),
    "separator": lambda: SeparatorLabels.fit(pictures(), 4),
    "training": trained,
    "metric": rounds,
}


def tensors(value, path=""):
    """All tensors inside a result, with the path to each."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Result):
        for field in dataclasses.fields(value):
            yield from tensors(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from tensors(entry, f"{path}[{name}]")
    elif isinstance(value, tuple | list):
        for index, entry in enumerate(value):
            yield from tensors(entry, f"{path}[{index}]")


@pytest.mark.parametrize("name", PIPELINES)
def test_a_result_is_read_back_with_the_layout_it_was_stored_with(name, tmp_path):
    result = PIPELINES[name]()
    spec = RunSpec(what="test", config={"name": name})
    read = Store(tmp_path).fetch_or_run(spec, lambda scratch: result).result
    before, after = list(tensors(result)), list(tensors(read))
    assert before
    assert [path for path, _ in before] == [path for path, _ in after]
    for (path, kept), (_, again) in zip(before, after, strict=True):
        assert kept.stride() == again.stride(), path
        assert kept.data_ptr() % ALIGNMENT == again.data_ptr() % ALIGNMENT == 0, path
        assert torch.equal(kept.nan_to_num(), again.nan_to_num()), path


def test_labels_by_a_column_of_a_basis_use_a_vector_of_its_own():
    data = pictures()
    fitted = PatchProjectionLabels.fit(data, patch_pca(data.x, GEOMETRY), GEOMETRY, 1, n_classes=4)
    assert fitted.direction.stride() == (1,)
