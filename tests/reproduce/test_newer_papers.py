"""Gaussian copies, master filters and the agreement of scores equal their definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.measures.learning_order.constancy import score_agreement
from reference import newer_papers as reference
from reproduce.studies.newer_papers.gaussian_copies import accuracy_by_moments, gaussian_copies
from reproduce.studies.newer_papers.master_filters import master_shares, masters


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labelled(n, *, side=2, seed=0, classes=2):
    return ImageData(
        normal(n, 1, side, side, seed=seed), torch.arange(n) % classes, ("a", "b", "c")[:classes]
    )


@given(n=st.integers(6, 12), side=st.integers(1, 3), classes=st.integers(2, 3), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_copies_equal_their_definition(n, side, classes, seed):
    data = labelled(n, side=side, seed=seed, classes=classes)
    for moments in ("covariances", "means"):
        keys = range(classes) if moments == "covariances" else [None]
        noise = {}
        for key in keys:
            size = n if key is None else int(data.counts[key])
            generator = generator_from("gaussian copies", seed, moments, -1 if key is None else key)
            noise[key] = torch.randn(size, size, generator=generator, dtype=torch.float64)
        expected = reference.noisy_copies(data.x, data.y, noise)
        assert torch.allclose(gaussian_copies(data, moments=moments, seed=seed).x, expected, atol=1e-10)


def test_copies_have_the_moments_of_their_class():
    x = normal(4000, 1, 1, 2)
    y = torch.arange(4000) % 2
    x[y == 1] = x[y == 1] * torch.tensor([3.0, 0.5]) + 1
    data = ImageData(x, y, ("a", "b"))
    own, pooled = (gaussian_copies(data, moments=kind).x.flatten(1) for kind in ("covariances", "means"))
    for label in (0, 1):
        truth = x.flatten(1)[y == label]
        # 2000 draws: standard errors of means below 0.07, of variances below 3 %
        assert torch.allclose(own[y == label].mean(0), truth.mean(0), atol=0.2)
        assert torch.allclose(own[y == label].T.cov(), truth.T.cov(), rtol=0.15, atol=0.1)
        assert torch.allclose(pooled[y == label].mean(0), truth.mean(0), atol=0.2)
    assert torch.allclose(pooled[y == 0].T.cov(), pooled[y == 1].T.cov(), rtol=0.15, atol=0.2)


class Product(nn.Module):
    """Knows a class by its covariance: the sign of the product of two pixels."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x):
        product = self.scale * x.flatten(1)[:, 0] * x.flatten(1)[:, 1]
        return torch.stack([product, -product], 1)


class Size(Product):
    """Knows a class by its fourth moment: whether a pixel is exactly 1 or -1."""

    def forward(self, x):
        far = self.scale * (x.flatten(1)[:, 0].abs() - 1).abs()
        return torch.stack([-far, far - 0.2], 1)


def test_accuracy_by_moments_tells_second_moments_from_higher_ones():
    x = normal(600, 1, 1, 2)
    y = torch.arange(600) % 2
    x[:, 0, 0, 1] = x[:, 0, 0, 0] * (1 - 2 * y) + 0.1 * x[:, 0, 0, 1]  # correlated, or anticorrelated
    second = accuracy_by_moments({"product": Product()}, ImageData(x, y, ("a", "b")))
    assert float(second["images"]) > 0.9
    assert float(second["covariances"]) > 0.9
    assert float(second["means"]) < 0.6
    signs = normal(600, 1, 1, 2, seed=1)
    signs[y == 0] = signs[y == 0].sign()
    higher = accuracy_by_moments({"size": Size()}, ImageData(signs, y, ("a", "b")))
    assert float(higher["images"]) > 0.9
    assert float(higher["images"] - higher["covariances"]) > 0.3
    assert abs(float(higher["covariances"] - higher["means"])) < 0.1


@given(k=st.integers(1, 4), c=st.integers(1, 3), q=st.integers(3, 6), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_the_share_of_master_filters_equals_a_least_squares_fit(k, c, q, seed):
    filters = normal(k, c, q, q, seed=seed)
    share, patches = master_shares(filters, normal(4, c, q + 2, q + 2, seed=seed))
    known = masters(q).T.reshape(-1, q, q)
    best = (
        torch.linalg.svdvals(filters.reshape(-1, q * q))[: len(known)].square().sum() / filters.square().sum()
    )
    assert share == pytest.approx(reference.span_share(filters, known), abs=1e-9)
    assert max(share, patches) <= float(best) + 1e-12


def test_oriented_derivatives_are_explained_and_noise_is_not():
    x = torch.arange(7).double() - 3
    bell = torch.exp(-(x[None].square() + x[:, None].square()) / (2 * 1.4**2))
    edge = bell * (x[None] * 0.8 + x[:, None] * 0.6)  # a first derivative, turned
    images = normal(10, 1, 12, 12)
    share, patches = master_shares(edge[None, None], images)
    assert share == pytest.approx(1, abs=1e-9)
    assert share > patches
    assert master_shares(normal(200, 1, 7, 7), images)[0] == pytest.approx(6 / 49, abs=0.03)
    assert torch.allclose(masters(7).T @ masters(7), torch.eye(6).double(), atol=1e-10)


@given(n=st.integers(4, 15), seed=st.integers(0, 99), levels=st.integers(2, 9))
@settings(max_examples=20, deadline=None)
def test_agreement_equals_its_definition(n, seed, levels):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(levels, (n,), generator=generator).double()
    counts[:2] = torch.tensor([0.0, 1.0])  # not all equal
    scores = {"a": normal(n, seed=seed), "b": counts, "c": normal(n, seed=seed + 1)}
    table = score_agreement(scores, draws=5)
    for i, one in enumerate(scores.values()):
        for j, other in enumerate(scores.values()):
            assert float(table.correlation[i, j]) == pytest.approx(
                reference.rank_correlation(one, other), abs=1e-9
            )
    assert torch.equal(table.p_value, table.p_value.T)


def test_unrelated_scores_stay_within_chance_and_related_ones_do_not():
    one = normal(300)
    table = score_agreement(
        {"one": one, "same": one + 0.1 * normal(300, seed=1), "other": normal(300, seed=2)}
    )
    assert float(table.p_value[0, 1]) < 0.01
    assert float(table.correlation[0, 1]) > float(table.chance[0, 1])
    assert abs(float(table.correlation[0, 2])) < 2 * float(table.chance[0, 2])
    with pytest.raises(InvalidInput, match="same examples"):
        score_agreement({"one": one, "short": one[:5]})
    with pytest.raises(InvalidInput, match="at least two scores"):
        score_agreement({"one": one})
