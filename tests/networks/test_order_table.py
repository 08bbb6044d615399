"""The table of the order in which images are learned, against the records that it is made of."""

import csv
import gzip
from pathlib import Path

import pytest
import torch

from firstlight._internal.errors import InvalidInput
from firstlight.cli.main import app
from firstlight.networks.bank import load_network
from firstlight.networks.order_table import order_table, write_order_table

NAMES = ("resnet20-cifar10-0", "small-cifar10-0")
PUBLISHED = Path(__file__).parents[2] / "networks" / "learning-order-cifar10.csv.gz"


def test_an_accessibility_is_the_share_of_epochs_in_which_an_image_was_classified_correctly():
    table = order_table(names=NAMES)
    for kind, name in zip(("resnet20", "small"), NAMES, strict=True):
        assert table.networks[kind] == (name,)
        torch.testing.assert_close(
            table.scores[kind], load_network(name).correct.double().mean(0), rtol=0, atol=1e-12
        )


def test_architectures_agree_more_than_random_pairings_and_images_of_one_are_no_null():
    table = order_table(names=NAMES)
    assert float(table.agreement.correlation[0, 1]) > 0.5 > 20 * float(table.agreement.chance[0, 1])
    assert order_table(names=NAMES[:1]).agreement is None


def test_equal_tables_are_equal_bytes_and_hold_a_row_for_each_image(tmp_path):
    table = order_table(names=NAMES)
    for name in ("a.csv.gz", "b.csv.gz", "c.csv"):
        write_order_table(table, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "c.csv").read_bytes()
    with (tmp_path / "c.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["image"]) for row in rows] == list(range(50_000))
    assert float(rows[7]["small"]) == pytest.approx(float(table.scores["small"][7]), abs=5e-4)


def test_the_published_table_is_that_of_the_networks():
    with gzip.open(PUBLISHED, "rt") as file:
        rows = list(csv.DictReader(file))
    published = torch.tensor([float(row["small"]) for row in rows], dtype=torch.float64)
    assert len(published) == 50_000
    # later networks of an architecture join its mean
    measured = load_network(NAMES[1]).correct.double().mean(0)
    assert float(torch.corrcoef(torch.stack([published, measured]))[0, 1]) > 0.8


def test_data_that_no_network_saw_is_said_so(tmp_path):
    with pytest.raises(InvalidInput, match="no network here was trained on all images of svhn"):
        order_table("svhn", names=NAMES)


def test_the_command_writes_the_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_NETWORKS", str(tmp_path / "none"))
    app(["networks", "order", "--output", str(tmp_path / "order.csv")], result_action="return_value")
    assert "resnet20: mean accessibility 0.8" in capsys.readouterr().out
    assert (tmp_path / "order.csv").read_text().startswith("image,")
