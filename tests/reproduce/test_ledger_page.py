"""The ledger as a page."""

import json
from pathlib import Path

import pytest

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.store import Store
from reproduce.catalogue import claims
from reproduce.entries import Entry, record
from reproduce.pages import ledger_blocks, recorded_entries, render_ledger
from reproduce.run import reproduce

HOSTILE = "<img src=x onerror=alert(1)>"
COMMITTED = Path(__file__).parents[2] / "reproduce" / "ledger"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def entries(store):
    return reproduce("linear.thm42", store=store)


def hostile_entry():
    return Entry(
        claim="x.y", theme="identity", statement=HOSTILE, exact=False, reported=HOSTILE, verdict="partly", scale="desk",
        rule={"reproduced": HOSTILE}, measured={HOSTILE: {"mean": 1.0, "interval": [0.5, 1.5], "seeds": [1.0]}},
        note=HOSTILE, reason=HOSTILE, settings={HOSTILE: HOSTILE}, runs=["0"],
    )  # fmt: skip


def test_the_ledger_shows_every_claim_with_its_numbers_figure_and_cost(entries, store):
    html = render_ledger(entries, store=store)
    for entry in entries:
        assert f'id="claim-{entry.claim}"' in html
        assert entry.commit in html
    assert "CPU seconds" in html
    assert html.count('<svg class="figure"') == len({entry.study for entry in entries})


def test_figures_of_runs_that_are_elsewhere_are_left_out(entries, tmp_path):
    (theme,) = ledger_blocks(entries, store=Store(tmp_path))
    assert (theme.tally.n_exact, theme.tally.n_holding, theme.tally.effects) == (2, 2, {})
    assert all(study.panel is None for study in theme.studies)


def test_hostile_words_in_a_ledger_are_escaped():
    html = render_ledger([hostile_entry()], static=True)
    assert HOSTILE not in html
    assert html.count("&lt;img src=x") >= 5


def test_a_recorded_ledger_lists_all_claims_also_those_not_run(entries, tmp_path):
    record(entries, tmp_path)
    listed = recorded_entries(tmp_path, scale="smoke")
    assert len(listed) == len(claims())
    assert sum(entry.verdict == "reproduced" for entry in listed) == 2
    with pytest.raises(InvalidInput, match="No smoke ledger in"):
        recorded_entries(tmp_path / "nowhere", scale="smoke")
    file = tmp_path / "smoke" / "first_layer.json"
    body = json.loads(file.read_text())
    body["claims"][0]["surprise"] = 1
    file.write_text(json.dumps(body))
    with pytest.raises(StoreProblem, match="another version"):
        recorded_entries(tmp_path, scale="smoke")


def test_an_empty_ledger_is_refused():
    with pytest.raises(InvalidInput, match="no claim"):
        render_ledger([])
