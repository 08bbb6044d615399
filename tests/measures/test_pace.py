"""What a measurement will take is said from a few images: passes, readings and bytes are counted right."""

from importlib import import_module

import pytest
import torch
from torch import nn

from firstlight.core.errors import InvalidInput
from firstlight.measures.feature_ansatz import AgopPace, agop_pace
from firstlight.measures.linearized import NtkPace, ntk_gram, ntk_pace

IMAGES = torch.rand(24, 3, 16, 16, generator=torch.Generator().manual_seed(0))
ntk = import_module("firstlight.measures.linearized.ntk")


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 40))


def test_gradients_are_priced_block_by_block_and_memory_stops_growing():
    pace = AgopPace(call=1.0, image=0.5, block=10, image_bytes=100.0, sum_bytes=7.0)
    assert [pace.seconds(n) for n in (1, 10, 11)] == [1.5, 6.0, 7.5]
    assert [pace.bytes(n) for n in (1, 10, 1000)] == [107.0, 1007.0, 1007.0]


def test_the_sample_gets_the_passes_of_the_whole_set(monkeypatch):
    """Thrift depends on the number of images: a few of many are passed fewer times than a few alone."""
    module = import_module("firstlight.measures.feature_ansatz.agop_pace")
    passes = []
    real = module._backward

    def counted(recorder, forward, sums, advance, n, fewer):
        passes.append([some.n_passes for some in fewer])
        real(recorder, forward, sums, advance, n, fewer)

    monkeypatch.setattr(module, "_backward", counted)
    found = agop_pace(small(), IMAGES, n_images=100_000, output_sum="thrifty")
    assert all(passes)
    assert found.seconds(100_000) > 0
    passes.clear()
    agop_pace(small(), IMAGES, n_images=24, output_sum="thrifty")
    agop_pace(small(), IMAGES, n_images=100_000, output_sum="auto")
    assert passes
    assert not any(passes)


def test_the_model_is_left_as_it_was():
    model = small().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    agop_pace(model, IMAGES, n_images=24)
    ntk_pace(model, IMAGES)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("kept", [0, 1, 2, 100])
@pytest.mark.parametrize("size", [5, 24])
def test_readings_are_counted_as_the_tangent_kernel_reads(monkeypatch, kept, size):
    model, read = small(), []
    pace = ntk_pace(model, IMAGES, outputs=0)
    real = ntk.WeightGradients.read

    def counted(self, images, *rest, **named):
        read.append(len(images))
        return real(self, images, *rest, **named)

    monkeypatch.setattr(ntk.WeightGradients, "read", counted)
    monkeypatch.setattr(ntk, "_kept_blocks", lambda held: kept)
    monkeypatch.setattr(
        import_module("firstlight.measures.linearized.ntk_pace"), "_kept_blocks", lambda held: kept
    )
    ntk_gram(model, IMAGES, outputs=0, block=size, show=False)
    same = NtkPace(**{**vars(pace), "size": size})
    assert same.readings(len(IMAGES)) == sum(read)


@pytest.mark.parametrize(("outputs", "rows"), [("trace", 24), ("full", 960), (3, 24)])
def test_the_matrix_counts_in_memory(outputs, rows):
    pace = ntk_pace(small(), IMAGES, outputs=outputs)
    matrix = ntk_gram(small(), IMAGES, outputs=outputs, show=False)
    assert pace.rows * len(IMAGES) == rows == len(matrix)
    assert pace.bytes(24) >= matrix.numel() * 4
    assert pace.seconds(48) >= pace.seconds(24) > 0


@pytest.mark.parametrize("given", [1, 3, 24])
def test_few_images_are_repeated_until_the_cost_of_a_pair_shows(monkeypatch, given):
    """The clock is ours: a call takes 10 ms, an image 30 us, a pair 1 us."""
    module, now = import_module("firstlight.measures.linearized.ntk_pace"), [0.0]

    def gram(model, images, **named):
        n = len(images)
        now[0] += 1e-2 + 3e-5 * n + 1e-6 * n * (n + 1) / 2

    monkeypatch.setattr(module, "ntk_gram", gram)
    monkeypatch.setattr(module.time, "process_time", lambda: now[0])
    pace = ntk_pace(small(), IMAGES[:given])
    assert [pace.call, pace.image, pace.pair] == pytest.approx([1e-2, 3e-5, 1e-6], rel=1e-6)


def test_nothing_cannot_be_priced():
    with pytest.raises(InvalidInput, match="not empty"):
        agop_pace(small(), IMAGES[:0], n_images=3)
    with pytest.raises(InvalidInput, match="must have weights"):
        agop_pace(nn.Flatten(), IMAGES, n_images=3)
    with pytest.raises(InvalidInput, match="at least one image"):
        ntk_pace(small(), IMAGES[:0])
