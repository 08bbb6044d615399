"""What is shown where two scales answer one claim differently, and the table of prices."""

from dataclasses import replace

import pytest

from firstlight.claims import STUDIES, Entry, record
from firstlight.claims.ledger import read_entries
from firstlight.claims.price import RAN, Price, price_rows, record_prices
from firstlight.claims.scales import MOST, contradiction
from firstlight.core.errors import FirstlightError
from firstlight.report.atlas import atlas_blocks, write_atlas

DESK = Entry(
    claim="id.fig9.filter_size", theme="identity", statement="Large filters favour the constant.", exact=False,
    reported="57 beats 5", verdict="partly", scale="desk", null_verdict="beyond", applied="partly: a > b",
    measured={"constant (at 29)": {"mean": 0.25, "interval": [0.2, 0.3], "seeds": [0.2, 0.3]}},
    settings={"base": {"image_size": 14, "width": 8}, "values": (5, 29), "seed": 0}, seeds=[0, 1], runs=["x", "y"],
    study="identity/filter_size", cpu_seconds=20.0,
)  # fmt: skip
NIGHT = replace(
    DESK, verdict="reproduced", scale="night", applied="reproduced: a > b", seeds=[0], runs=["z"], cpu_seconds=7200.0,
    measured={"constant (at 57)": {"mean": 0.75, "interval": ["-inf", "inf"], "seeds": [0.75]}},
    settings={"base": {"image_size": 28, "width": 8}, "values": [5, 29], "seed": 0},
)  # fmt: skip


def test_scales_that_agree_say_nothing():
    assert contradiction(DESK, replace(NIGHT, verdict="partly")) == ""
    assert contradiction(DESK, replace(NIGHT, verdict="not run", null_verdict="")) == ""


def test_a_contradiction_names_what_changed():
    words = contradiction(DESK, NIGHT)
    assert "At night: reproduced; at the desk: partly." in words
    assert "base.image_size 14 → 28." in words  # tuples and lists are the same; the width did not change
    assert "The night has 1 seed, the desk 2 seeds." in words
    assert "It decided: reproduced: a > b; at the desk: partly: a > b." in words
    null = contradiction(DESK, replace(NIGHT, verdict="partly", null_verdict="not beyond"))
    assert "At night: partly, not beyond its null" in null


def test_many_changed_settings_are_counted():
    many = replace(NIGHT, settings={**NIGHT.settings, **{f"n{i}": i for i in range(MOST + 2)}})
    assert "3 more settings" in contradiction(DESK, many)


def test_the_atlas_shows_reported_desk_and_night_side_by_side(tmp_path):
    record([DESK, NIGHT], tmp_path)
    html = write_atlas(tmp_path, tmp_path / "atlas.html").read_text()
    for text in (
        "57 beats 5",
        "Measured (desk)",
        "0.25 [0.2, 0.3]",
        "Measured (night)",
        "0.75",
        "The scales differ",
    ):
        assert text in html
    blocks = atlas_blocks(tmp_path)["IdentityCrisis"]
    (claim,) = {c.first.claim: c for b in blocks for c in b.claims if c.first.claim == DESK.claim}.values()
    assert [entry.scale for entry in claim.entries] == ["desk", "night"]
    record([replace(NIGHT, verdict="partly")], tmp_path)
    assert "The scales differ" not in write_atlas(tmp_path, tmp_path / "atlas.html").read_text()


def test_prices_are_recorded_beside_what_runs_took_and_explain_what_did_not_run(tmp_path):
    record([NIGHT], tmp_path)
    assert price_rows(tmp_path) == [("identity/filter_size", "unknown", "unknown", "2", "1", RAN)]
    bound = Price(
        study="identity/filter_size",
        cpu_seconds=3600.0,
        low_seconds=1800.0,
        high_seconds=7200.0,
        memory_bytes=2e9,
        stops_early=True,
    )
    record_prices({bound.study: bound}, tmp_path, scale="night")
    cheap = Price(
        study="identity/edges", cpu_seconds=1800.0, low_seconds=1200.0, high_seconds=2700.0, memory_bytes=1e9
    )
    missing = Price(study="linearized/tables", problem="no short run")
    path = record_prices({one.study: one for one in (cheap, missing)}, tmp_path, scale="night")
    assert path == tmp_path / "night-prices.json"
    assert price_rows(tmp_path) == [
        ("identity/edges", "0.5 (0.33 to 0.75)", "1 GB", "", "0", ""),
        ("identity/filter_size", "1 (0.5 to 2)", "2 GB", "2", "1", "at most: trainings may stop early"),
        ("linearized/tables", "unknown", "unknown", "", "0", "no short run"),
    ]
    recorded = {e.claim: e for e in read_entries(tmp_path / "night" / "identity.json")}
    assert recorded[NIGHT.claim] == replace(
        NIGHT, settings=recorded[NIGHT.claim].settings
    )  # what ran is kept
    edges = recorded["id.fig3.edge_detector"]
    assert edges.verdict == "not run"
    assert edges.reason.startswith("priced at 0.5 (0.33 to 0.75) CPU hours and 1 GB a seed")
    tables = read_entries(tmp_path / "night" / "linearized.json")
    assert {e.claim for e in tables} == set(STUDIES["linearized/tables"].claims())
    assert tables[0].reason.startswith("no short run")
    path.write_text("{")
    with pytest.raises((FirstlightError, ValueError)):
        price_rows(tmp_path)
