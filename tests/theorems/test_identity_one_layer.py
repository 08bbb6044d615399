"""IdentityCrisis, section 3: one layer trained to copy one image, compared with the closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight import data
from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight.maths import PatchGeometry, extract_patches
from firstlight.theory import least_squares as ls
from firstlight.theory.least_squares import converged_weights
from firstlight.training import Recipe, train
from reference.gradient_descent import iterate
from reproduce.studies.identity import one_convolution as theory


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def trained_linear(examples, seed, steps=3000):
    """A linear layer of torch, trained by our own loop, full batch."""
    d = examples.shape[1]
    model = nn.Linear(d, d, bias=False).double()
    model.weight.data = draw(d, d, seed=seed) / d**0.5
    start = model.weight.detach().clone()
    largest = torch.linalg.matrix_norm(examples, 2).item() ** 2
    # MSE averages over n*d numbers: the rate that makes the largest eigenvalue of the step 1
    rate = len(examples) * d / (2 * largest)
    train(model, examples, examples, Recipe(loss="mse", lr=rate, steps=steps, batch_size=None), show=False)
    return start, model.weight.detach()


@pytest.mark.parametrize("n", [1, 5])
def test_theorem_1_the_span_is_copied_and_the_rest_meets_the_initial_weights(n):
    examples = draw(n, 30, seed=n)
    start, end = trained_linear(examples, seed=7)
    predicted = theory.identity_layer(examples, initial=start.T)
    assert torch.allclose(end.T, predicted, atol=1e-8)
    other = draw(30, seed=9)
    inside = theory.span_projector(examples)
    assert torch.allclose(end @ other, inside @ other + start @ (other - inside @ other), atol=1e-8)


def test_theorem_1_a_first_layer_stays_in_the_span_of_its_one_example_at_any_depth():
    x = draw(1, 12, seed=3)
    model = nn.Sequential(
        nn.Linear(12, 16, bias=False),
        nn.ReLU(),
        nn.Linear(16, 16, bias=False),
        nn.ReLU(),
        nn.Linear(16, 12, bias=False),
    ).double()
    start = model[0].weight.detach().clone()
    train(model, x, x, Recipe(loss="mse", lr=0.05, momentum=0.9, steps=200, batch_size=None), show=False)
    singular = torch.linalg.svdvals(model[0].weight.detach() - start)
    assert singular[0] > 1e-3
    assert singular[1] < 1e-12 * singular[0]


@given(n=st.integers(1, 12), d=st.integers(1, 8), c=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_lemmas_1_and_2_gradient_descent_ends_where_they_say(n, d, c, seed):
    x, y, w0 = draw(n, d, seed=seed), draw(n, c, seed=seed + 1), draw(d, c, seed=seed + 2)
    closed = converged_weights(x, y, initial=w0)
    spectral = ls.spectrum(x)
    rate = 1 / spectral.largest
    slow = float(spectral.values[spectral.rank - 1]) * rate
    steps = min(10**12, math.ceil(40 / slow))
    late = ls.weights(spectral, y, rate=rate, steps=steps, initial=w0)
    assert torch.allclose(late, closed, atol=1e-7 * max(1, closed.abs().max().item()))


def test_lemma_1_holds_with_more_examples_than_outputs():
    """The printed condition compares examples with outputs; the rank against the inputs is what counts."""
    x, y, w0 = draw(6, 15), draw(6, 4, seed=1), draw(15, 4, seed=2)
    rate = 1 / torch.linalg.matrix_norm(x, 2).item() ** 2
    naive = torch.stack([iterate(x, y[:, i], rate=rate, steps=4000, initial=w0[:, i]) for i in range(4)], 1)
    assert torch.allclose(converged_weights(x, y, initial=w0), naive, atol=1e-8)


def test_lemma_2_forgets_the_start():
    x, y = draw(20, 6), draw(20, 3, seed=1)
    a, b = (converged_weights(x, y, initial=draw(6, 3, seed=s)) for s in (2, 3))
    assert torch.allclose(a, b, atol=1e-12)
    assert torch.allclose(a, torch.linalg.lstsq(x, y).solution, atol=1e-12)


def trained_kernel(system, initial):
    """Theorem 2: f(x)_p = ΛᵀΠP_p + W0ᵀ(I - Π)P_p, one row per output channel."""
    seen = torch.eye(len(system.unseen), dtype=torch.float64) - system.unseen
    return (seen @ system.selection + system.unseen @ initial.double().mT).mT


def trained_convolution(image, size, *, seed):
    """One convolution trained on one image by our own loop, in the closed-form-friendly full batch."""
    c = image.shape[0]
    model = nn.Conv2d(c, c, size, padding=size // 2, bias=False).double()
    model.weight.data = 0.2 * draw(*model.weight.shape, seed=seed)
    start = model.weight.detach().flatten(1).clone()
    system = theory.patch_system(image, size=size)
    largest = torch.linalg.matrix_norm(system.patches, 2).item() ** 2
    rate = image.numel() / (2 * largest)
    recipe = Recipe(loss="mse", lr=rate, steps=20_000, batch_size=None, stop_below=1e-28)
    train(model, image[None], image[None], recipe, show=False)
    return model, start, system


@pytest.mark.parametrize(("c", "side", "size"), [(1, 4, 5), (2, 5, 5), (1, 6, 9)])
def test_theorem_2_the_pixel_error_of_a_trained_convolution_is_exact(c, side, size):
    image = draw(c, side, side, seed=c + side)
    model, start, system = trained_convolution(image, size, seed=1)
    assert system.nullity > 0
    assert torch.allclose(model.weight.detach().flatten(1), trained_kernel(system, start), atol=1e-7)
    test = draw(1, c, side + 2, side, seed=5)
    patches = extract_patches(test, PatchGeometry.square(size, padding=size // 2))[0]
    measured = (model(test) - test).detach()[0].flatten(1).square().sum(0)
    assert torch.allclose(theory.pixel_errors(system, patches, initial=start), measured, atol=1e-7)


def test_theorem_2_full_rank_patches_give_the_identity_everywhere():
    image = draw(1, 12, 12)
    system = theory.patch_system(image, size=5)
    assert system.is_identity
    kernel = trained_kernel(system, draw(1, 25, seed=3))
    conv = nn.Conv2d(1, 1, 5, padding=2, bias=False).double()
    conv.weight.data = kernel.reshape(1, 1, 5, 5)
    test = draw(10, 1, 20, 17, seed=4)
    assert (conv(test) - test).abs().max() < 1e-10
    assert theory.error_bound(system, sigma=1.0, largest_pixel=1.0, delta=0.05) == 0


def test_the_selection_picks_the_middle_of_each_channel():
    image = torch.rand(3, 7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    system = theory.patch_system(image, size=3)
    assert torch.equal(system.patches @ system.selection, system.targets)


def test_theorem_2_the_bound_is_not_violated():
    image = torch.rand(1, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    system = theory.patch_system(image, size=5)
    assert system.nullity > 0
    delta, m0, sigma = 0.05, 40.0, 0.3
    bound = theory.error_bound(system, sigma=sigma, largest_pixel=1.0, delta=delta, m0=m0)
    tests = torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    patches = extract_patches(tests, PatchGeometry.square(5, padding=2)).flatten(0, 1)
    worst = [
        theory.pixel_errors(system, patches, initial=sigma * draw(1, 25, seed=s)).mean().item()
        for s in range(200)
    ]
    assert max(worst) <= bound
    with pytest.raises(InvalidInput, match="`delta` must lie in"):
        theory.error_bound(system, sigma=sigma, largest_pixel=1.0, delta=1e-9, m0=2.0)


def test_a_real_seven_spans_patch_space_up_to_13x13():
    try:
        digits = data.load("mnist", split="train", n=2000, seed=0)
    except DataUnavailable as reason:
        pytest.skip(str(reason))
    seven = digits.only("7").x[0].double()
    seven = (seven - 0.1307) / 0.3081
    for size in (3, 5, 7, 9, 13):
        assert theory.patch_system(seven, size=size).is_identity, size
    assert theory.patch_system(seven, size=29).rank == 784


def test_bad_kernels_and_images_are_refused():
    with pytest.raises(InvalidInput, match="odd"):
        theory.patch_system(torch.ones(1, 4, 4), size=4)
    with pytest.raises(InvalidInput, match="NaN"):
        theory.span_projector(torch.full((1, 3), math.nan))
    assert theory.span_projector(torch.zeros(2, 3)).abs().max() == 0
