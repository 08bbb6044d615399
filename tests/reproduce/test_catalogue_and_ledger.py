import importlib
from dataclasses import asdict, replace

import pytest

from firstlight._internal.errors import DataUnavailable, Diverged, InvalidInput, StoreProblem
from firstlight._internal.store import Store
from firstlight._internal.version import __version__
from reproduce import __main__ as command
from reproduce import entries as ledger
from reproduce.catalogue import THEMES, Study, claims, departures, select, studies
from reproduce.judge import Rule
from reproduce.run import entry_not_run, reproduce, run_study

EXACT = "profile.invariance"
OTHER = "profile.table1.seeds"


def test_all_claims_are_there():
    known = claims()
    assert len(known) >= 188
    assert sum(c.exact for c in known.values()) >= 62
    assert {c.theme for c in known.values()} == set(THEMES)


def test_names_that_mean_nothing_are_refused_with_the_nearest():
    with pytest.raises(InvalidInput, match="Did you mean 'first_layer'"):
        select("first_layr")
    assert {c.id for c in select("linear.thm42")} == {"linear.thm42.spectral", "linear.thm42.lambda"}


def made(*claim_ids, run, n_seeds=5):
    """A study outside the registry that measures the number x for `claim_ids`."""

    class Made(Study):
        """Does it?"""

        width: int = 1
        scales = {"smoke": {}, "desk": {"width": 2}}  # noqa: RUF012

    Made.run = run
    Made.n_seeds, Made.name, Made.theme, Made.claims = n_seeds, "first_layer/made", "first_layer", claim_ids
    return Made


@pytest.fixture
def serve(monkeypatch):
    """Let a made study serve claims, by a rule about x."""

    def patch(study, *, null=""):
        rule = Rule(effect="x > 0.5", weaker="x > 0.2", null=null)
        replaced = {
            id: replace(claims()[id], rule=rule, no_null="" if null else "made up", published={"width": 9})
            for id in study.claims
        }
        for name in ("reproduce.run", "reproduce.catalogue"):
            module = importlib.import_module(name)
            monkeypatch.setattr(module, "study_of", lambda id: study)
        monkeypatch.setattr(
            "reproduce.run.select", lambda what: [replaced[id] for id in study.claims if id == what]
        )

    return patch


def test_an_entry_holds_everything_a_referee_asks_for(tmp_path, serve):
    serve(made(OTHER, run=lambda study: {"x": 0.9 + 0.01 * study.seed, "y": 0.1}), null="x > y")
    (entry,) = reproduce(OTHER, scale="desk", store=Store(tmp_path))
    assert (entry.verdict, entry.null_verdict, entry.summary) == ("reproduced", "beyond", "reproduced")
    assert entry.measured["x"]["seeds"] == [0.9, 0.91, 0.92, 0.93, 0.94]
    assert entry.measured["x"]["interval"] == [0.9004, 0.9396]
    assert entry.null["y"]["mean"] == 0.1
    assert entry.rule["reproduced"] == "x > 0.5"
    assert entry.applied == "x > 0.5"
    assert entry.departures == {"width": "2 instead of 9"}
    assert entry.seeds == [0, 1, 2, 3, 4]
    assert len(entry.runs) == 5
    assert entry.environment["torch"]
    assert entry.version == __version__
    assert entry.date.startswith("20")


def test_not_beyond_its_null_is_counted_as_such(tmp_path, serve):
    serve(made(OTHER, run=lambda study: {"x": 0.9, "y": 0.95}), null="x > y")
    entries = reproduce(OTHER, scale="desk", store=Store(tmp_path))
    assert ledger.counts(entries) == {"reproduced, not beyond its null": 1}
    assert ledger.Tally.of(entries) == ledger.Tally(
        n_exact=0, n_holding=0, effects={"reproduced, not beyond its null": 1}
    )
    assert not ledger.is_beyond(entries[0])


def test_smoke_scale_judges_exact_claims_only(tmp_path, serve):
    serve(made(OTHER, EXACT, run=lambda study: {"x": 0.9}))
    assert reproduce(OTHER, store=Store(tmp_path))[0].verdict == "not run"
    assert reproduce(EXACT, store=Store(tmp_path))[0].verdict == "reproduced"


def test_a_number_that_is_not_finite_is_not_judged(tmp_path, serve):
    serve(made(OTHER, run=lambda study: {"x": float("nan")}))
    (entry,) = reproduce(OTHER, scale="desk", store=Store(tmp_path))
    assert (entry.verdict, entry.null_verdict) == ("not run", "")
    assert "not a finite number: x" in entry.reason


def test_a_finished_seed_is_not_run_again(tmp_path, serve):
    calls = []
    study = made(OTHER, run=lambda study: calls.append(study.seed) or {"x": 1.0})
    serve(study)
    reproduce(OTHER, scale="desk", store=Store(tmp_path), n_seeds=2)
    reproduce(OTHER, scale="desk", store=Store(tmp_path), n_seeds=3)
    run_study(study, scale="smoke", store=Store(tmp_path))
    assert calls == [0, 1, 2, 0], "smoke has other settings"


@pytest.mark.parametrize("problem", [DataUnavailable("no network"), Diverged("loss became nan")])
def test_missing_data_and_divergence_do_not_poison_the_ledger(tmp_path, serve, problem):
    def fail(study):
        raise problem

    serve(made(OTHER, run=fail))
    (entry,) = reproduce(OTHER, scale="desk", store=Store(tmp_path))
    assert entry.verdict == "not run"
    assert str(problem) in entry.reason


def test_every_study_states_enough_to_tell_how_it_departs():
    for name in studies():
        for claim in (claims()[id] for id in studies()[name].claims):
            settings = asdict(studies()[name].at_scale("desk"))
            found = departures(claim, settings, n_seeds=5)
            assert set(found) <= set(claim.published)
            assert not {"where", "remarks", "unclear"} & set(found)


def test_a_departure_is_told_key_by_key():
    published = {"width": [2, 9], "seeds": 5, "rate": 0.1, "data": "not given", "where": "figure 1"}
    claim = replace(claims()[OTHER], published={**published, "unclear": {"width": [2, 9]}})
    assert departures(claim, {"width": 2}, n_seeds=5) == {"rate": "not stated instead of 0.1"}
    assert departures(claim, {"plan": {"width": 1, "seed": 3}}, n_seeds=1) == {
        "width": "1 instead of 2 or 9", "seeds": "1 instead of 5", "rate": "not stated instead of 0.1"
    }  # fmt: skip
    sweep = replace(claim, published=published)
    assert departures(sweep, {"width": 2, "recipe": {"lr": 0.1}}, n_seeds=5) == {"width": "2 instead of 2, 9"}
    both = {"plan": {"width": 1.0, "rates": [0.1]}, "widths": [2, 9]}
    assert departures(sweep, both, n_seeds=5) == {}


def test_an_unknown_scale_is_refused():
    with pytest.raises(InvalidInput, match="Did you mean 'desk'"):
        reproduce("all", scale="deskk")


def test_earlier_lines_are_kept_and_figures_written(tmp_path):
    from reproduce.run import study_figures

    store = Store(tmp_path / "runs")
    entries = reproduce(EXACT, store=store)
    ledger.record(entries, tmp_path)
    more = reproduce("profile.cnfm_diagonal", store=store)
    ledger.record(more, tmp_path, figures=study_figures(more, store))
    rows = ledger.read_entries(tmp_path / "smoke" / "first_layer.json")
    assert {row.claim for row in rows} == {EXACT, "profile.cnfm_diagonal"}
    assert rows[1].reported == "exact property"
    assert ledger.figure_file(tmp_path, "smoke", rows[0].study).read_text().startswith("<svg")


def test_a_damaged_ledger_is_named(tmp_path):
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "first_layer.json").write_text("{}")
    entry = entry_not_run(claims()[EXACT], scale="desk", reason="because")
    with pytest.raises(StoreProblem, match=r"first_layer\.json is damaged"):
        ledger.record([entry], tmp_path)


def test_the_command_says_what_recorded_runs_took_and_when_stored_ones_are_of_another_commit(
    tmp_path, monkeypatch, capsys
):
    def said():
        command.run(EXACT, record=tmp_path / "ledger", output=tmp_path / "page.html")
        return capsys.readouterr().err

    assert "recorded" not in (first := said())  # a price that nobody knows is not told as nothing
    assert "another commit" not in first
    assert "CPU seconds when it was recorded" in said()
    monkeypatch.setattr("firstlight._internal.environment.code_commit", lambda: "0" * 12)
    assert "the runs behind 1 of 1 claims were stored at another commit" in said()
