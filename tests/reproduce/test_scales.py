"""What is shown where two scales answer one claim differently."""

from dataclasses import replace

from reproduce.atlas import atlas_blocks, write_atlas
from reproduce.entries import Entry, record
from reproduce.pages import MOST, contradiction

DESK = Entry(
    claim="id.fig9.filter_size", theme="identity", statement="Large filters favour the constant.", exact=False,
    reported="57 beats 5", verdict="partly", scale="desk", null_verdict="beyond", applied="partly: a > b",
    measured={"constant (at 29)": {"mean": 0.25, "interval": [0.2, 0.3], "seeds": [0.2, 0.3]}},
    settings={"base": {"image_size": 14, "width": 8}, "values": (5, 29), "seed": 0}, seeds=[0, 1], runs=["x", "y"],
    study="identity/filter_size", cpu_seconds=20.0,
)  # fmt: skip
NIGHT = replace(
    DESK, verdict="reproduced", scale="night", applied="reproduced: a > b", seeds=[0], runs=["z"], cpu_seconds=7200.0,
    measured={"constant (at 57)": {"mean": 0.75, "interval": None, "seeds": [0.75]}},
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
    (claim,) = {
        c.counted.claim: c for b in blocks for c in b.claims if c.counted.claim == DESK.claim
    }.values()
    assert claim.counted.scale == "night"
    assert [entry.scale for entry in claim.smaller] == ["desk"]
    record([replace(NIGHT, verdict="partly")], tmp_path)
    assert "The scales differ" not in write_atlas(tmp_path, tmp_path / "atlas.html").read_text()
