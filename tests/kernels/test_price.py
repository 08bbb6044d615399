"""Prices follow from rates; rates come from real images."""

from dataclasses import replace

import pytest
import torch

from firstlight.estimators import ConvRFMClassifier
from firstlight.kernels import ConvKernel, Rates, measure_rates
from firstlight.kernels.large import FEW

RATES = Rates(image=0.0, pair=1e-5, slope=1e-4, factor=1e-11, spectrum=1e-10, image_bytes=1e5)


def test_a_symmetric_matrix_costs_half_of_a_full_one():
    whole, half = RATES.gram(8000, 8000), RATES.gram(8000)
    assert whole.seconds == pytest.approx(8000 * 8000 * 1e-5)
    assert half.seconds == pytest.approx(whole.seconds / 2, rel=0.01)
    assert half.bytes >= 8 * 8000**2


def test_pairs_of_a_pooled_kernel_are_priced_one_by_one():
    alone = replace(RATES, lanes=1)
    assert alone.gram(8).seconds == pytest.approx(36 * 1e-5)
    assert alone.gram(8, 3).seconds == pytest.approx(24 * 1e-5)
    assert RATES.gram(8, 3).seconds == pytest.approx(8 * 32 * 1e-5)


def test_a_machine_pays_for_every_round_and_nothing_else():
    none, one, three = (RATES.rfm(1000, n_valid=200, rounds=r).seconds for r in (0, 1, 3))
    each = RATES.gram(1000).seconds + RATES.gram(200, 1000).seconds + RATES.ridge(1000, 3).seconds
    assert none == pytest.approx(each)
    assert one - none == pytest.approx(each + 1e-4 * 1000**2)
    assert three - none == pytest.approx(3 * (one - none))
    few = RATES.rfm(1000, n_valid=200, rounds=1, agop_images=10).seconds
    assert few - none == pytest.approx(each + 1e-4 * 1000 * 10)


def test_many_images_are_priced_by_factors_and_few_by_a_decomposition():
    assert RATES.ridge(FEW, 3).seconds == pytest.approx(1e-10 * FEW**3)
    assert RATES.ridge(FEW + 1, 3).seconds == pytest.approx(3e-11 * (FEW + 1) ** 3)


@pytest.mark.parametrize(
    "kernel", [ConvKernel(depth=2), ConvKernel(depth=2, readout="gap", pooling=(1,), padding=1)]
)
def test_rates_of_real_images_are_positive_and_pooling_has_no_gradients(kernel):
    x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    rates = measure_rates(x, kernel=kernel, n_outputs=2)
    assert min(rates.pair, rates.factor, rates.spectrum, rates.image_bytes) > 0
    assert (rates.slope > 0) == (not kernel.pooling)
    assert (rates.lanes == 1) == (kernel.readout == "gap")


def test_a_machine_knows_its_price():
    x = torch.randn(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    price = ConvRFMClassifier(depth=2, rounds=2).price(x, 2)
    assert price.seconds > 0
    assert price.bytes > 8 * 200**2


def test_a_price_is_said_in_words():
    assert str(RATES.gram(2000)) == "20 CPU seconds, 0.1 GB"
    assert str(RATES.gram(50_000)).startswith("3.5 CPU hours, 20.")
