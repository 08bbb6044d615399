"""The page and the command of the identity task, on the photographs of the installation."""

import os

import pytest
import torch

import warm
from firstlight._internal.errors import InvalidInput
from firstlight.pages.page import render
from firstlight.questions.copy_or_memorise.page import (
    behaviour_by_depth,
    identity_page,
    identity_sections,
    labelled_grid,
)
from firstlight.questions.copy_or_memorise.task import IdentityTask
from firstlight.questions.copy_or_memorise.tour_part import run_identity_tour
from limits import COMMAND

TINY = IdentityTask(dataset="photos", image_size=7, width=4, kernel=3, steps=3, n_images=40)


def test_the_page_grows_while_networks_train_and_has_a_row_per_depth():
    parts = []
    tour = run_identity_tour(TINY, depths=(2, 1), seeds=2, listen=parts.append, n_jobs=1)
    assert [len(p.runs) for p in parts] == [1, 2, 3, 4]
    first, last = identity_page(parts[0]), identity_page(tour)
    assert "still training" in first.facts["Networks"]
    assert last.facts["Networks"] == "4 of 4"
    assert "adam at 0.001" in last.facts["Task"]
    grid = last.sections[0].panels[0].figure
    assert grid.plot["layout"]["yaxis"]["ticktext"] == ["input", "1 layer", "2 layers"]
    assert "2 layers" in render(last)


def test_a_diverged_network_is_said_and_left_out():
    wild = IdentityTask(**{**TINY.__dict__, "optimiser": "sgd", "lr": 1e9, "stop_below": None, "steps": 30})
    tour = run_identity_tour(wild, depths=(3,), n_jobs=1)
    page = identity_page(tour)
    assert identity_sections(tour) == ()
    assert "No network could be trained" in page.lead[0]
    assert "Lower `lr`" in page.lead[1]


def test_depths_that_do_the_same_are_named_together():
    words = {1: "identity", 3: "identity", 5: "identity", 10: "none", 20: "constant"}
    assert behaviour_by_depth(words) == (
        "Trained to copy one image: networks of 1 to 5 layers copy others too; 10 layers do neither clearly; 20 layers "
        "always return the memorised image."
    )
    assert behaviour_by_depth({}) == "No network could be trained."


def test_a_grid_of_flat_images_is_drawn():
    figure = labelled_grid(torch.ones(2, 3, 1, 4, 4), rows=["a", "b"], title="t", alt="a")
    assert figure.plot["data"]
    with pytest.raises(InvalidInput, match="must be positive"):
        run_identity_tour(TINY, depths=())


def firstlight(*arguments):
    return warm.run(
        ["-m", "firstlight.cli.main", "identity", *arguments],
        timeout=COMMAND,
        env={**os.environ, "FIRSTLIGHT_JOBS": "1"},
    )


def test_the_command_writes_a_page_and_prints_what_the_networks_do(tmp_path):
    page = tmp_path / "page.html"
    settings = ["--data", "photos", "--size", "7", "--width", "4", "--kernel", "3", "--steps", "3"]
    done = firstlight("--depths", "1,2", *settings, "--output", str(page))
    assert done.returncode == 0, done.stderr
    assert "behaviour" in done.stdout
    assert page.read_text().count('<svg class="figure"') == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--depths", "1,x"], "--depths must be positive numbers"),
        (["--family", "cnnn"], "Did you mean 'cnn'"),
        (["--examples", "some"], "--examples must be a number or the word all"),
        (["--output", "no/such/folder/x.html"], "folder that exists"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    done = firstlight(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
