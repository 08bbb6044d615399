import pytest

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store import Store
from reproduce.catalogue import claims
from reproduce.entries import record
from reproduce.pages import NOT_DRAWN, PAPERS, places, plates, write_atlas
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


def test_no_claim_names_a_figure_that_its_paper_does_not_have():
    known = {(plate.paper, plate.name) for plate in plates()}
    for claim in claims().values():
        for name in places(claim.source):
            assert (claim.paper, name) in known, claim.id


def test_reasons_are_given_only_for_figures_without_claims():
    with_claims = {(plate.paper, plate.name) for plate in plates() if plate.claims}
    assert not with_claims & set(NOT_DRAWN)
    figures = {(plate.paper, plate.name) for plate in plates() if plate.name != "Text"}
    assert figures - with_claims == set(NOT_DRAWN), "say why a figure is not redrawn"


def test_the_atlas_shows_what_was_recorded_and_says_what_was_not(tmp_path):
    store = Store(tmp_path / "runs")
    entries = reproduce("linear.thm42", scale="desk", store=store)
    record(entries, tmp_path, figures=study_figures(entries, store))
    html = write_atlas(tmp_path, tmp_path / "atlas.html").read_text()
    assert html.count('src="data:image/svg+xml;base64,') >= 1
    assert "reproduce run linear.thm42.spectral --scale desk" in html
    assert "not recorded yet" in html
    assert "there is nothing to redraw or check" in html
    assert "<script" not in html


def test_a_folder_without_a_ledger_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="No desk or night ledger in"):
        write_atlas(tmp_path / "nowhere", tmp_path / "atlas.html")
    assert not (tmp_path / "atlas.html").exists()
