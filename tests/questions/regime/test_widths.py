"""Where the linearisation of an architecture catches up with the network."""

import json
import math

import pytest
import torch
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.cli.main import main
from firstlight.data.images import ImageData
from firstlight.maths.correlation import Interval
from firstlight.questions.regime.widths import WidthGap, WidthScan, linear_catch_up
from firstlight.training.recipe import Recipe


def clouds(n=120):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = (2.0 * y - 1)[:, None, None, None] + 1.5 * torch.randn(n, 1, 2, 2, generator=generator)
    return ImageData(x, y, ("a", "b"))


def linear_network(width, seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 2))


def test_a_linear_network_is_matched_by_its_linearisation_at_every_width():
    scan = linear_catch_up(
        linear_network, clouds(), widths=[2, 1], n_fit=40, recipe=Recipe(lr=0.1, epochs=10)
    )
    assert [row.width for row in scan.rows] == [1, 2]
    assert (scan.n_fit, scan.n_test) == (40, 80)
    assert scan.rows[0].accuracy > 0.8
    assert all(row.gap.value == pytest.approx(row.accuracy - row.linear_accuracy) for row in scan.rows)
    assert scan.catches_up_at == 1
    assert "keeps up at every width measured" in scan.sentence()


def scan_with(*gaps, accuracy=0.7, fitted=1.0):
    rows = tuple(
        WidthGap(
            width=2**i,
            n_weights=10,
            fitted=fitted,
            accuracy=accuracy,
            linear_accuracy=accuracy - gap,
            gap=Interval(value=gap, low=gap - 0.05, high=gap + 0.05, level=0.95),
            seconds=1.0,
        )
        for i, gap in enumerate(gaps)
    )
    return WidthScan(rows=rows, n_fit=300, n_test=1000, chance=0.1)


def test_the_sentence_names_the_width_or_says_that_none_of_them_does():
    assert "catches up at 4 times the width" in scan_with(0.3, 0.1, 0.02).sentence()
    none = scan_with(0.3, 0.2, 0.13)
    assert math.isnan(none.catches_up_at)
    assert none.sentence().startswith(
        "No network of up to 4 times the width is matched by its linearisation (70% of 1,000 unseen images against 57%"
    )
    # one width in between proves nothing if a larger one falls behind again
    assert math.isnan(scan_with(0.3, 0.01, 0.2).catches_up_at)
    assert "the network is at chance" in scan_with(0.0, 0.0, 0.0, accuracy=0.11).sentence()
    unfinished = scan_with(0.0, 0.0, 0.0, fitted=0.5).sentence()
    assert "cannot be told: the network classifies only 50% of the images" in unfinished


def test_widths_and_images_that_mean_nothing_are_refused():
    with pytest.raises(InvalidInput, match="`widths` must hold positive numbers"):
        linear_catch_up(linear_network, clouds(), widths=[])
    with pytest.raises(InvalidInput, match="at least 2 images"):
        linear_catch_up(linear_network, clouds(), n_fit=1)


def test_the_command_prints_a_row_for_every_width_of_ones_own_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_widths.py").write_text(
        "from torch import nn\n"
        "def net(width):\n"
        "    units = int(4 * width)\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(3072, units), nn.ReLU(), nn.Linear(units, 8))\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["regime", "own_widths:net", "--data", "photos", "--n", "16", "--widths", "1", "2"]
    monkeypatch.setattr("sys.argv", ["firstlight", *arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    assert [row["width"] for row in told["widths"]] == [1, 2]
    assert told["widths"][1]["weights"] == 3073 * 8 + 9 * 8
    assert all(
        row["gap_low"] <= row["accuracy"] - row["linear_accuracy"] <= row["gap_high"]
        for row in told["widths"]
    )
    assert "linearisation" in told["sentence"]


def test_an_architecture_without_widths_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["firstlight", "regime", "fcn", "--data", "photos"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "fcn has no width to choose" in capsys.readouterr().err
