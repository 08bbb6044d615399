"""What a study declares about its figure is what is drawn."""

import pytest
import torch

from reproduce.catalogue import Study
from reproduce.evidence import Evidence, by


def drawn(**declared):
    class Made(Study):
        """Is it drawn?"""

    for name, value in declared.items():
        setattr(Made, name, value)
    seeds = {
        seed: {
            "gap": by((1, 4), [0.5, 0.25 + seed]), "by data": by(("mnist", "photos"), [0.1, 0.2]), "chance": 0.1,
            "curve": torch.arange(3.0 + seed), "bank": torch.ones(2, 4), "width 1": torch.ones(3),
            "width 2": torch.zeros(3), "steps": torch.tensor([1.0, 10.0, 100.0, 1000.0]),
        }
        for seed in (0, 1)
    }  # fmt: skip
    return Made.figure(Evidence.of(seeds))


def test_series_stand_at_their_points_and_numbers_are_level_lines():
    figure = drawn(
        drawn={"gap": "trained", "chance": "null", "absent": "other"}, axes=("width", "gap"), log_axes="x"
    )
    assert figure.table["width"] == [1.0, 4.0]
    assert figure.table["gap"] == [0.5, 0.75]
    assert figure.table["chance"] == pytest.approx([0.1, 0.1])
    assert "absent" not in figure.table
    assert figure.plot["layout"]["xaxis"]["type"] == "log"
    assert "type" not in figure.plot["layout"]["yaxis"] or figure.plot["layout"]["yaxis"]["type"] != "log"


def test_arrays_are_cut_to_what_all_seeds_have_and_rows_of_networks_are_joined():
    figure = drawn(drawn={"curve": "trained", "bank": "other"}, axes=("step", "y"), at="steps")
    assert figure.table["step"] == [1.0, 10.0, 100.0]
    assert figure.table["curve"] == [0.0, 1.0, 2.0]
    assert figure.table["bank"] == [1.0, 1.0, 1.0]


def test_a_family_of_arrays_is_named_by_its_beginning():
    figure = drawn(drawn="width ", axes=("step", "y"))
    assert [name for name in figure.table if name.startswith("width") and "sd" not in name] == [
        "width 1",
        "width 2",
    ]


def test_points_that_are_words_stand_side_by_side():
    figure = drawn(drawn={"by data": "trained"}, axes=("data", "accuracy"))
    assert figure.plot["data"][0]["type"] == "scatter"
    assert "mnist" in str(figure.table)


def test_settings_are_frozen_and_know_their_seed():
    class Made(Study):
        width: int = 3

    assert Made(width=4, seed=2) == Made(width=4, seed=2)
    with pytest.raises(AttributeError):
        Made().width = 5
    with pytest.raises(TypeError):
        Made(4)
