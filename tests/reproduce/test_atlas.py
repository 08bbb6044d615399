import re
from dataclasses import replace

import pytest
import torch

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store import Store
from firstlight.pages.figures import picture_grid, svg
from reproduce.atlas import places, plates, status_table, write_atlas
from reproduce.catalogue import claims, studies
from reproduce.entries import record
from reproduce.pages import recorded
from reproduce.plates.registry import PAPERS, Drawing, Line, drawings, keep, kept, line_plate, with_key
from reproduce.run import reproduce, study_figures


def test_every_claim_and_every_figure_has_its_plate():
    listed = plates()
    assert {claim.id for plate in listed for claim in plate.claims} == set(claims())
    for paper, (n_figures, n_tables) in PAPERS.items():
        names = [plate.name for plate in listed if plate.paper == paper]
        assert names == [
            *(f"Figure {i + 1}" for i in range(n_figures)),
            *(f"Table {i + 1}" for i in range(n_tables)),
            "Text",
        ]


def test_every_figure_is_drawn_or_says_why_not():
    figures = {(plate.paper, plate.name) for plate in plates() if plate.name != "Text"}
    assert figures == set(drawings())
    for drawing in drawings().values():
        ways = [drawing.pictures, drawing.numbers, drawing.study, drawing.absent]
        assert sum(map(bool, ways)) == 1, (drawing.paper, drawing.name)
        assert drawing.shows.endswith((".", "?")), "a sentence says what the plate shows"
        assert f"| {drawing.paper} | {drawing.name} |" in status_table()


def test_no_figure_of_a_study_stands_for_two_plates():
    used = [drawing.study for drawing in drawings().values() if drawing.study]
    assert len(used) == len(set(used)) > 10
    assert set(used) <= set(studies())


def test_no_claim_names_a_figure_that_its_paper_does_not_have():
    known = {(plate.paper, plate.name) for plate in plates()}
    for claim in claims().values():
        for name in places(claim.source):
            assert (claim.paper, name) in known, claim.id


def test_the_atlas_shows_what_was_recorded_and_says_what_was_not(tmp_path):
    store = Store(tmp_path / "runs")
    entries = reproduce("linear.thm42", scale="desk", store=store)
    record(entries, tmp_path, figures=study_figures(entries, store))
    html = write_atlas(tmp_path, tmp_path / "atlas.html").read_text()
    assert "reproduce run linear.thm42.spectral --scale desk" in html
    assert "not recorded yet" in html
    assert "Not drawn yet" in html
    assert "CIFAR-100 needs an own copy" in html
    assert "<script" not in html


def test_a_folder_without_a_ledger_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="No desk or night ledger in"):
        write_atlas(tmp_path / "nowhere", tmp_path / "atlas.html")
    assert not (tmp_path / "atlas.html").exists()


def test_pictures_are_kept_and_read_again(tmp_path):
    grid = picture_grid(torch.rand(2, 1, 4, 4), title="t", alt="a & b", signed=False)
    drawing = Drawing(
        paper="PCBias",
        name="Figure 1",
        shows="Two.",
        pictures=lambda: [replace(grid, title=title) for title in ("one", "two")],
    )
    assert kept(drawing, tmp_path) == {}
    keep(drawing, tmp_path)
    panels = kept(drawing, tmp_path)
    assert list(panels) == ["one", "two"]
    assert panels["two"].startswith("<svg")
    assert "data:image/png" in panels["two"]
    drawing.file(tmp_path).write_text("<svg/>\n")
    with pytest.raises(InvalidInput, match="damaged"):
        kept(drawing, tmp_path)


def test_reported_and_measured_numbers_stand_in_one_frame():
    lines = [
        Line(name="ours", reported={"1": 0.5, "2": 0.6}),
        Line(name="reported", role="theory", reported={"1": 0.7, "60": 0.9}),
    ]
    figure = line_plate({}, "t", lines, x="width", y="accuracy")
    assert figure.table["width"] == ["1", "2", "60"]
    assert figure.table["reported"][0] == 0.7
    assert figure.table["ours"][1] == 0.6
    assert line_plate({}, "t", [Line("none", "x", "y")], y="z").plot["data"] == []


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    from reproduce.__main__ import LEDGER

    return write_atlas(LEDGER, tmp_path_factory.mktemp("atlas") / "atlas.html")


def test_the_recorded_atlas_is_light_and_shows_every_plate_that_can_be_had(page):
    html = page.read_text()
    assert page.stat().st_size < 6e6
    assert "Not drawn yet" not in html
    shown = re.findall(r'id="([A-Za-z]+-(?:Figure|Table)-\d+)">(.*?)</article>', html, re.S)
    without = {id for id, body in shown if "data:image/svg" not in body}
    absent = {f"{d.paper}-{d.name.replace(' ', '-')}" for d in drawings().values() if d.absent}
    assert without == absent


def test_plates_with_pictures_hold_pictures_or_curves():
    from reproduce.__main__ import LEDGER

    for drawing in drawings().values():
        if drawing.pictures:
            panels = kept(drawing, LEDGER)
            assert panels, (drawing.paper, drawing.name)
            assert all("<image" in p or 'class="trace"' in p for p in panels.values())


def test_the_command_names_what_can_be_drawn(tmp_path):
    from reproduce.__main__ import plates as draw

    with pytest.raises(InvalidInput, match="Unknown paper"):
        draw("Nature", record=tmp_path)
    with pytest.raises(InvalidInput, match="Unknown plate with pictures"):
        draw("PCBias", "Figure 99", record=tmp_path)
    draw("PCBias", "Figure 15", record=tmp_path)
    assert "<image" in (tmp_path / "plates" / "PCBias-Figure-15.svg").read_text()


def test_a_key_names_the_series_below_a_figure():
    lines = [Line(name=f"series {i}", reported={"a": i, "b": 2 * i}) for i in range(8)]
    picture = with_key(svg(line_plate({}, "t", lines, y="y")), [(line.name, "#000000") for line in lines])
    assert all(f">series {i}</text>" in picture for i in range(8))
    height = int(re.search(r'viewBox="0 0 \d+ (\d+)"', picture)[1])
    assert all(float(y) < height for y in re.findall(r'<text x="\d+" y="(\d+)" font-size="12"', picture))


def test_the_details_of_a_claim_tell_the_verdict_of_a_smaller_scale(page):
    from reproduce.__main__ import LEDGER

    html = page.read_text()
    judged = {id: [e for e in entries if e.verdict != "not run"] for id, entries in recorded(LEDGER).items()}
    differing = {id: e for id, e in judged.items() if len({entry.summary for entry in e}) > 1}
    assert "profile.table1.init" in differing
    for id, (desk, night) in differing.items():
        details = html.split(f"<code>{id}</code>")[1].split("<h4>")[0]
        assert f"<dt>Verdict (desk)</dt><dd>{desk.summary}</dd>" in details
        assert f"At night: {night.summary}; at the desk: {desk.summary}." in details
