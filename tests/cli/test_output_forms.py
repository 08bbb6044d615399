"""Commands that print numbers print them as JSON and as CSV too, in the same words."""

import csv
import io
import json
import sys

import pytest

from cli.test_flags import COMMANDS, flags_of
from firstlight._internal.errors import InvalidInput
from firstlight.cli import main
from firstlight.cli.options import OutputFormat
from firstlight.cli.output import print_records

SILENT = {
    "tour", "report", "networks add", "networks order", "networks train", "data get", "data rm", "runs show",
    "runs rm", "rfm",
}  # fmt: skip
"""Commands whose result is a file, or, as `runs show`, only JSON; `rfm` counts as its default below."""
BANK = ["networks:small-cifar10-0", "--data", "photos", "--n", "24"]


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["firstlight", *map(str, arguments)])
    try:
        main.main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def test_every_command_that_prints_numbers_takes_both_forms():
    printing = {words for words, command in COMMANDS.items() if {"--json", "--csv"} <= flags_of(command)}
    assert len(printing) > 12
    assert set(COMMANDS) - printing - SILENT == set()


def test_files_are_written_where_output_says():
    """No other word for it: an option that takes the path of a file to write begins with --output."""
    flags = {flag for command in COMMANDS.values() for flag in flags_of(command)}
    assert {"--output", "--output-initial", "--output-machine"} <= flags
    assert not flags & {"--save", "--save-initial", "--to", "--out", "--page"}


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        (["profile", *BANK], {"amplitude", "null_mean", "null_sd", "root_variance"}),
        (["ansatz", *BANK], {"pearson", "error", "null_low", "null_high"}),
        (["ntk", *BANK], {"alignment", "null_mean", "null_sd", "effective_rank"}),
        (["data", "info", "photos"], {"images"}),
        (["networks", "list"], {"training", "test"}),
        (["networks", "ranges"], {"lowest", "highest", "networks"}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_numbers_are_the_same_in_both_forms(command, numbers, monkeypatch, capsys):
    rows = list(csv.DictReader(io.StringIO(run(monkeypatch, capsys, *command, "--csv"))))
    told = json.loads(run(monkeypatch, capsys, *command, "--json"))
    assert rows
    assert numbers <= set(rows[0])
    assert all(float(row[name]) == float(row[name]) for row in rows for name in numbers)
    lists = (
        [told] if isinstance(told, list) else [value for value in told.values() if isinstance(value, list)]
    )
    assert any(len(one) == len(rows) for one in lists)
    if numbers <= set(lists[-1][0]):
        assert [str(row[name]) for row in lists[-1] for name in sorted(numbers)] == [
            row[name] for row in rows for name in sorted(numbers)
        ]


def test_the_text_puts_each_number_beside_its_null(monkeypatch, capsys):
    assert "random filters: " in run(monkeypatch, capsys, "profile", *BANK)
    assert "expected by chance" in run(monkeypatch, capsys, "ansatz", *BANK)
    assert "shuffled labels" in run(monkeypatch, capsys, "ntk", *BANK)


def test_the_kernel_of_a_trained_network_fits_labels_better_than_shuffled_ones(monkeypatch, capsys):
    arguments = ["ntk", "networks:small-cifar10-0", "--data", "cifar10", "--n", "100", "--json"]
    trained, initial = json.loads(run(monkeypatch, capsys, *arguments))
    assert trained["alignment"] > trained["null_mean"] + 3 * trained["null_sd"]
    assert trained["alignment"] > initial["alignment"]


def test_words_that_a_spreadsheet_would_compute_are_quoted_and_unknown_numbers_are_empty(capsys):
    print_records([{"name": "=cmd()", "value": float("nan"), "layers": [1, 2]}], OutputFormat(csv=True))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {"name": "'=cmd()", "value": "", "layers": "[1, 2]"}


def test_two_forms_at_once_are_refused():
    with pytest.raises(InvalidInput, match="give one of them"):
        print_records([], OutputFormat(json=True, csv=True))
