import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store import decode, encode
from firstlight.data.images import ImageData
from firstlight.data.interventions import MNIST_NORMALISATION, ChannelNormalisation
from firstlight.maths import image_pca
from reproduce.studies.feature_ansatz.noisy_images import noise_frame
from reproduce.studies.learning_order.principal_components import (
    Amplification,
    ComponentProjection,
    ZCAWhitening,
)
from reproduce.studies.linearized.shifts import random_shifts, shifted

FLOAT64 = torch.float64


def pictures(n=60, c=2, h=4, w=3, *, seed=0, dtype=FLOAT64):
    """Correlated pixels with a mean, two classes."""
    generator = torch.Generator().manual_seed(seed)
    d = c * h * w
    mixing = torch.randn(d, d, generator=torch.Generator().manual_seed(7), dtype=FLOAT64)
    x = torch.randn(n, d, generator=generator, dtype=FLOAT64) @ mixing * 0.1 + 0.5
    y = torch.arange(n) % 2
    return ImageData(x.reshape(n, c, h, w).to(dtype), y, ("a", "b"), {"name": "test"})


def covariance(data):
    rows = data.x.double().flatten(1)
    rows = rows - rows.mean(0)
    return rows.T @ rows / len(rows)


def close(a, b, atol=1e-10):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


FITTED = {
    "channel_normalisation": ChannelNormalisation.fit,
    "zca_whitening": ZCAWhitening.fit,
    "component_projection": lambda train: ComponentProjection.fit(train, 3),
    "amplification": Amplification.fit,
}


@pytest.mark.parametrize("name", FITTED)
def test_every_fitted_intervention_leaves_a_note_and_the_labels(name):
    train, test = pictures(), pictures(10, seed=1)
    changed = FITTED[name](train).transform(test)
    assert changed.meta["name"] == "test"
    assert [note["name"] for note in changed.meta["interventions"]] == [name]
    assert torch.equal(changed.y, test.y)
    assert "interventions" not in test.meta
    twice = FITTED[name](train).transform(changed)
    assert [note["name"] for note in twice.meta["interventions"]] == [name, name]


@pytest.mark.parametrize("name", FITTED)
def test_every_fitted_intervention_acts_on_each_image_alone_and_is_stored(name):
    train, test = pictures(), pictures(10, seed=1)
    transform = FITTED[name](train)
    whole = transform.transform(test).x
    close(transform.transform(test.take(torch.tensor([4]))).x[0], whole[4], atol=1e-12)
    close(decode(*encode(transform)).transform(test).x, whole, atol=0)


@pytest.mark.parametrize("name", FITTED)
def test_every_fitted_intervention_keeps_the_precision_and_its_input(name):
    train = pictures(dtype=torch.float32)
    before = train.x.clone()
    assert FITTED[name](train).transform(train).x.dtype == torch.float32
    assert torch.equal(train.x, before)


@pytest.mark.parametrize("name", ["zca_whitening", "component_projection", "amplification"])
def test_images_of_another_shape_are_refused(name):
    with pytest.raises(InvalidInput, match=r"fitted shape \(2, 4, 3\); got \(1, 6, 4\)"):
        FITTED[name](pictures()).transform(pictures(c=1, h=6, w=4))


@pytest.mark.parametrize("fit", [ZCAWhitening.fit, Amplification.fit])
def test_a_pca_of_other_images_is_refused(fit):
    with pytest.raises(InvalidInput, match="24 numbers; got 8"):
        fit(pictures(), pca=image_pca(pictures(c=1, h=4, w=2).x))


def test_normalised_channels_have_mean_zero_and_variance_one():
    x = ChannelNormalisation.fit(pictures()).transform(pictures()).x
    close(x.mean((0, 2, 3)), torch.zeros(2, dtype=FLOAT64), atol=1e-13)
    close(x.std((0, 2, 3), correction=0), torch.ones(2, dtype=FLOAT64), atol=1e-13)


def test_normalisation_of_another_split_uses_the_training_statistics():
    train, test = pictures(), pictures(20, seed=5)
    fitted = ChannelNormalisation.fit(train)
    by_hand = (test.x - train.x.mean((0, 2, 3))[:, None, None]) / train.x.std((0, 2, 3), correction=0)[
        :, None, None
    ]
    close(fitted.transform(test).x, by_hand, atol=1e-12)


def test_constants_of_other_channels_are_refused():
    black = ImageData(torch.zeros(1, 3, 2, 2), torch.zeros(1).long(), ("a",))
    with pytest.raises(InvalidInput, match="must have 1 channels; got 3"):
        MNIST_NORMALISATION.transform(black)


def test_a_constant_channel_cannot_be_normalised():
    x = pictures().x.clone()
    x[:, 1] = 0.1
    with pytest.raises(InvalidInput, match=r"channel 1 of `train` is constant, 0\.1"):
        ChannelNormalisation.fit(pictures().replace(x=x))


def test_constants_that_cannot_scale_are_refused():
    with pytest.raises(InvalidInput, match="one positive number per channel"):
        ChannelNormalisation.given([0.5], [0.0])


@given(st.integers(26, 80), st.integers(0, 99))
def test_exact_whitening_gives_the_identity_on_the_training_split(n, seed):
    train = pictures(n, seed=seed)
    whitened = ZCAWhitening.fit(train, eps=0.0).transform(train)
    close(covariance(whitened), torch.eye(24, dtype=FLOAT64), atol=1e-8)
    close(whitened.x.mean(0), torch.zeros(2, 4, 3, dtype=FLOAT64), atol=1e-9)


def test_exact_whitening_of_few_images_is_the_identity_on_their_span():
    train = pictures(9)
    matrix = covariance(ZCAWhitening.fit(train, eps=0.0).transform(train))
    close(matrix @ matrix, matrix, atol=1e-9)
    assert float(matrix.trace()) == pytest.approx(8, abs=1e-9)


def test_default_whitening_shrinks_exactly_by_the_relative_eps():
    train = pictures()
    pca = image_pca(train.x)
    whitened = ZCAWhitening.fit(train, eps=1e-2, pca=pca).transform(train)
    expected = pca.variances / (pca.variances + 1e-2 * pca.variances[0])
    close(torch.linalg.eigvalsh(covariance(whitened)).flip(0), expected.sort(descending=True).values)
    nearly = covariance(ZCAWhitening.fit(train, pca=pca).transform(train))
    assert float(torch.linalg.eigvalsh(nearly)[0]) == pytest.approx(
        float(pca.variances[-1] / (pca.variances[-1] + 1e-8 * pca.variances[0])), abs=1e-9
    )


def test_whitening_is_symmetric_so_images_stay_images():
    """Zero-phase: the whitening matrix is symmetric, which singles out ZCA among all whitenings."""
    train = pictures()
    transform = ZCAWhitening.fit(train)
    units = torch.eye(24, dtype=FLOAT64) + transform.pca.mean
    matrix = transform.transform(train.take(torch.arange(24)).replace(x=units.reshape(24, 2, 4, 3)))
    rows = matrix.x.flatten(1)
    close(rows, rows.T, atol=1e-9)


def test_whitening_ignores_directions_the_training_images_lack():
    train = pictures()
    x = train.x.clone()
    x[:, 0, 0, 0] = 0.25
    train = train.replace(x=x)
    odd = train.x[:1].clone()
    odd[0, 0, 0, 0] = 99.0
    transform = ZCAWhitening.fit(train)
    first = train.take(torch.tensor([0]))
    close(transform.transform(first.replace(x=odd)).x, transform.transform(first).x, atol=1e-7)


def test_negative_eps_is_refused():
    with pytest.raises(InvalidInput, match=r"eps=-1\.0"):
        ZCAWhitening.fit(pictures(), eps=-1.0)


@given(st.integers(1, 24), st.integers(0, 50))
def test_projection_is_idempotent_and_loses_what_the_other_components_hold(p, seed):
    train, test = pictures(seed=seed), pictures(7, seed=seed + 1000)
    transform = ComponentProjection.fit(train, p)
    once = transform.transform(test)
    close(transform.transform(once).x, once.x, atol=1e-11)
    lost = (train.x - transform.transform(train).x).square().sum() / len(train)
    assert float(lost) == pytest.approx(float(image_pca(train.x).variances[p:].sum()), abs=1e-10)


def test_projection_on_all_components_changes_nothing():
    train = pictures()
    close(ComponentProjection.fit(train, 24).transform(train).x, train.x, atol=1e-11)


def test_projection_on_too_many_components_is_refused():
    with pytest.raises(InvalidInput, match=r"1 \.\. 24.*n_components=25"):
        ComponentProjection.fit(pictures(), 25)


@pytest.mark.parametrize(("end", "chosen"), [("top", slice(0, 5)), ("bottom", slice(19, 24))])
def test_amplification_changes_only_the_named_components(end, chosen):
    train = pictures(80)
    pca = image_pca(train.x)
    transform = Amplification.fit(train, end=end, share=0.2, standardise=False, pca=pca)
    before = pca.project(train.x.flatten(1))
    after = pca.project(transform.transform(train).x.flatten(1))
    ratio = torch.ones(24, dtype=FLOAT64)
    ratio[chosen] = 10.0
    close(after, before * ratio, atol=1e-9)
    variances = after.square().mean(0) / before.square().mean(0)
    close(variances[chosen], torch.full((5,), 100.0, dtype=FLOAT64), atol=1e-5)


def test_amplification_restandardises_the_channels_of_the_training_split():
    train = pictures()
    x = Amplification.fit(train).transform(train).x
    close(x.mean((0, 2, 3)), torch.zeros(2, dtype=FLOAT64), atol=1e-12)
    close(x.std((0, 2, 3), correction=0), torch.ones(2, dtype=FLOAT64), atol=1e-12)


def test_the_published_share_is_46_of_3072_components():
    assert round(0.015 * 3072) == 46
    transform = Amplification.fit(pictures(200, c=1, h=10, w=10))
    assert (transform.first, transform.last) == (0, 2)


def test_the_bottom_ends_where_the_variance_does():
    few = pictures(9)  # eight directions vary
    transform = Amplification.fit(few, end="bottom", share=0.1, standardise=False)
    assert (transform.first, transform.last) == (6, 8)
    assert not torch.equal(transform.transform(few).x, few.x)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"end": "middle"}, "middle"), ({"share": 0.0}, "share=0.0"), ({"factor": -1.0}, "factor=-1.0")],
)
def test_meaningless_amplifications_are_refused(options, message):
    with pytest.raises(Exception, match=message):
        Amplification.fit(pictures(), **options)


def test_images_without_variance_cannot_be_amplified():
    with pytest.raises(InvalidInput, match="all of them are the same"):
        Amplification.fit(pictures().replace(x=torch.ones(60, 2, 4, 3)))


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 99))
def test_shifting_keeps_the_sum_of_an_image_with_a_border_of_background(n, m, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.zeros(n, 2, 4 + 2 * m, 3 + 2 * m, dtype=FLOAT64)
    x[:, :, m : 4 + m, m : 3 + m] = torch.rand(n, 2, 4, 3, generator=generator, dtype=FLOAT64)
    data = ImageData(x, torch.zeros(n).long(), ("a",))
    moved = random_shifts(data, m, seed=seed)
    close(moved.x.sum((1, 2, 3)), x.sum((1, 2, 3)), atol=1e-12)


@given(st.integers(-4, 4), st.integers(-4, 4))
def test_a_shift_moves_each_pixel_by_that_much(down, right):
    x = torch.arange(40.0).reshape(1, 2, 4, 5)
    moved = shifted(x, torch.tensor([[down, right]]), torch.tensor([-1.0, -2.0]))
    for c in range(2):
        for i in range(4):
            for j in range(5):
                inside = 0 <= i - down < 4 and 0 <= j - right < 5
                expected = x[0, c, i - down, j - right] if inside else -1.0 - c
                assert moved[0, c, i, j] == expected


def test_shifts_are_uniform_on_both_axes_and_fixed_by_the_seed():
    x = torch.zeros(5000, 1, 15, 15)
    x[:, :, 7, 7] = 1.0
    data = ImageData(x, torch.zeros(5000).long(), ("a",))
    moved = random_shifts(data, 7, seed=0)
    assert torch.equal(moved.x, random_shifts(data, 7, seed=0).x)
    assert not torch.equal(moved.x, random_shifts(data, 7, seed=1).x)
    for axis in (2, 3):
        counts = moved.x.sum((0, 1, 5 - axis))
        # chi-squared with 14 degrees of freedom at the 0.1 % level
        assert float(((counts - 5000 / 15) ** 2 / (5000 / 15)).sum()) < 36.1


def test_the_default_fill_is_the_background_after_normalisation():
    x = torch.zeros(20, 1, 6, 6)
    x[:, :, 2:4, 2:4] = 1.0
    data = MNIST_NORMALISATION.transform(ImageData(x, torch.zeros(20).long(), ("a",)))
    assert torch.equal(random_shifts(data, 5, seed=0).x.amin((1, 2, 3)), data.x.amin((1, 2, 3)))


def test_shifts_as_large_as_the_image_are_refused():
    with pytest.raises(InvalidInput, match="max_shift=3"):
        random_shifts(pictures(), 3, seed=0)


@given(st.integers(1, 4), st.integers(4, 8), st.integers(0, 99))
def test_a_noise_frame_holds_the_image_somewhere(n, side, seed):
    data = pictures(n, seed=seed)
    framed = noise_frame(data, sigma=1.0, side=side, seed=seed)
    assert framed.shape == (2, side, side)
    windows = framed.x.unfold(2, 4, 1).unfold(3, 3, 1)  # n c rows columns 4 3
    same = (windows == data.x[:, :, None, None]).all(-1).all(-1).all(1)
    assert (same.flatten(1).sum(1) == 1).all()


def test_the_frame_has_the_noise_and_the_offsets_of_the_definition():
    data = ImageData(torch.full((3000, 1, 2, 2), 50.0), torch.zeros(3000).long(), ("a",))
    framed = noise_frame(data, sigma=4.0, side=6, seed=0)
    noise = framed.x[framed.x < 49]
    # standard error of a standard deviation over 96 000 draws: 0.0023
    assert float(noise.std()) == pytest.approx(0.5 * 2.0, abs=0.01)
    assert abs(float(noise.mean())) < 0.01
    corners = (framed.x[:, 0] > 49).nonzero().reshape(3000, 4, 3)[:, 0, 1:]
    assert corners.unique().tolist() == [0, 1, 2, 3]  # the offset 4 would fit and is never used
    assert framed.meta["interventions"][-1]["name"] == "noise_frame"


def test_frames_are_fixed_by_the_seed():
    data = pictures(3)
    assert torch.equal(
        noise_frame(data, sigma=1.0, side=9, seed=2).x, noise_frame(data, sigma=1.0, side=9, seed=2).x
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"side": 3, "sigma": 1.0}, "side=3"), ({"side": 8, "sigma": -1.0}, "sigma=-1.0")],
)
def test_impossible_frames_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        noise_frame(pictures(), seed=0, **options)
