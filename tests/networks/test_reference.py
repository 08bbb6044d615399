"""Ranges over healthy networks, and what a flag is worth: on made-up networks whose numbers are known."""

import json
import math

import pytest

from firstlight._internal.errors import FirstlightError
from firstlight.networks.reference import (
    HEALTHY,
    LayerNumbers,
    Measured,
    Range,
    Reference,
    error_rates,
    read_reference,
    write_reference,
)


def network(family, group, *, tells=0.5, noise=0.5, kind="first convolution", side=32, name="x"):
    numbers = {"ansatz": tells, "exponent": noise}
    layer = LayerNumbers(name="conv1", kind=kind, depth=0.0, numbers=numbers)
    return Measured(name=name, family=family, group=group, accuracy=0.6, side=side, layers=(layer,))


def some_networks():
    """Three families of four healthy networks; the fault moves one number, the family moves the other."""
    return [
        network(family, group, tells=centre + seed, noise=at + seed)
        for at, family in enumerate(("small", "vgg", "resnet"))
        for group, centre in ((HEALTHY, 0.5), ("rate / 30", 0.1), ("random labels", 0.9))
        for seed in (-0.03, -0.01, 0.01, 0.03)
    ]


def test_a_number_is_outside_half_the_width_of_the_range_beyond_its_ends():
    wide = Range(low=0.4, high=0.8, n=4)
    assert [wide.position(value) for value in (0.2, 0.6, 1.0)] == [-1.0, 0.0, 1.0]
    assert wide.position(100) == 5.0
    narrow = Range(low=0.5, high=0.5, n=4)  # no range is narrower than 0.02
    assert narrow.position(0.52) == 1.0


def test_ratios_count_where_a_number_is_a_ratio():
    movement = Range(low=1.0, high=4.0, n=4, logarithmic=True)
    assert movement.position(2.0) == pytest.approx(0.0)
    assert movement.position(8.0) == pytest.approx(1.0)
    assert movement.position(0.0) == -5.0


def test_only_what_tells_faults_apart_on_architectures_held_out_has_earned_it():
    rates = error_rates(Reference(some_networks()))
    assert rates.earned == ("ansatz",)
    assert rates.flagged["ansatz"][HEALTHY] == (0, 12)
    assert rates.flagged["ansatz"]["rate / 30"] == (12, 12)
    assert rates.flagged["exponent"][HEALTHY][0] > 0  # the number of another architecture is another one


def test_a_fault_is_named_if_held_out_networks_were_named_correctly():
    numbers = [
        Measured(**{**vars(one), "layers": (LayerNumbers(
            name="conv1", kind="first convolution", depth=0.0, numbers={"ansatz": one.layers[0].numbers["ansatz"]}),)})
        for one in some_networks()
    ]  # fmt: skip
    reference = Reference(numbers)
    rates = error_rates(reference)
    assert rates.naming("rate / 30") == (12, 12, 12)
    assert rates.may_name("rate / 30")
    assert not rates.may_name("channels swapped")  # no network of the reference has it
    assert reference.most_like(network("other", "", tells=0.12)) == "rate / 30"
    assert reference.most_like(network("other", "", tells=0.51)) == HEALTHY
    # a fault that changes nothing is told from nothing
    harmless = [network(one.family, "harmless", tells=one.layers[0].numbers["ansatz"])
                for one in numbers if one.group == HEALTHY]  # fmt: skip
    assert not error_rates(Reference([*numbers, *harmless])).may_name("harmless")


def test_layers_and_images_that_nobody_measured_have_no_reference():
    reference = Reference(some_networks())
    known, strange, large = (
        reference.readings(one)
        for one in (network("a", ""), network("a", "", kind="MultiheadAttention"), network("a", "", side=224))
    )
    assert all(reading.range is not None for reading in known)
    assert all(reading.range is None and reading.side == 0 for reading in (*strange, *large))


def test_three_networks_make_no_range():
    reference = Reference([network("small", HEALTHY, tells=0.1 * i) for i in range(3)])
    assert reference.ranges == {}


def test_who_else_lies_there_is_counted_by_group():
    reference = Reference(some_networks())
    low = next(r for r in reference.readings(network("a", "", tells=0.1)) if r.number == "ansatz")
    assert low.side == -1
    assert reference.groups_at(low) == {"rate / 30": "12 of 12"}


def test_a_file_gives_back_what_was_written_and_notices_a_change(tmp_path):
    path = tmp_path / "reference.json"
    networks = [network("small", HEALTHY, tells=0.123, noise=2.0), network("small", "one epoch", tells=0.25)]
    write_reference(path, networks, {"made_by": "a test"})
    assert read_reference(path) == tuple(networks)
    assert json.loads(path.read_text())["provenance"] == {"made_by": "a test"}
    path.write_text(path.read_text().replace("0.123", "0.124"))
    with pytest.raises(FirstlightError, match="changed after it was written"):
        read_reference(path)


def test_an_unknown_accuracy_stays_unknown(tmp_path):
    unknown = Measured(name="x", family="a", group=HEALTHY, accuracy=math.nan, side=32, layers=())
    write_reference(tmp_path / "r.json", [unknown], {})
    assert math.isnan(read_reference(tmp_path / "r.json")[0].accuracy)
