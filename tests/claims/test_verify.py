"""A ledger entry whose code has changed is fresh again if, and only if, one seed gives its numbers again."""

import dataclasses

import pytest

from firstlight.claims import reproduce
from firstlight.claims.stale import CODE, stale_entries, staleness
from firstlight.claims.verify import verify
from firstlight.store import Store

CLAIM = "id.params.table1"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def fresh(store):
    (entry,) = reproduce(CLAIM, scale="smoke", store=store)
    return entry


def test_an_entry_of_other_code_is_verified_by_its_numbers(fresh, store):
    old = dataclasses.replace(fresh, code="0123456789abcdef", stale="the reason why it was kept")
    assert staleness(old) == CODE
    (result,) = verify([old], store=store)
    assert not result.differences
    assert staleness(result.entry) == ""
    assert result.entry.stale == ""
    assert result.entry.code == old.code
    assert result.entry.verified == {"code": fresh.code, "commit": fresh.commit, "seed": fresh.seeds[0]}


def test_another_number_leaves_it_stale_and_is_named(fresh, store):
    name, estimate = next(iter(fresh.measured.items()))
    wrong = {name: {**estimate, "seeds": [estimate["seeds"][0] + 1]}}
    old = dataclasses.replace(fresh, code="0123456789abcdef", measured={**fresh.measured, **wrong})
    (result,) = verify([old], store=store)
    assert result.entry is old
    assert len(result.differences) == 1
    assert result.differences[0].startswith(f"{name}: recorded {estimate['seeds'][0] + 1}")


def test_a_number_that_is_recorded_no_more_is_a_difference(fresh, store):
    old = dataclasses.replace(fresh, code="0123456789abcdef", measured={})
    (result,) = verify([old], store=store)
    assert "recorded nothing" in result.differences[0]


def test_other_settings_and_rules_cannot_be_verified(fresh, store):
    settings = dataclasses.replace(fresh, settings={**fresh.settings, "extra": 1})
    rule = dataclasses.replace(fresh, rule={**fresh.rule, "effect": "something else"})
    assert stale_entries([settings]) == {CLAIM: "its settings have changed"}
    assert stale_entries([rule]) == {CLAIM: "its rule has changed"}
    assert verify([settings, rule], store=store) == []
    assert staleness(fresh) == ""
