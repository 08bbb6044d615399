"""The table of models and inputs in the documentation says what happens."""

import re

import pytest

from models_and_inputs import PAGE, cases, outcome


def written():
    """Rows of the page by name: whether it works, and the words."""
    rows = re.findall(
        r"^\| (.+?) \| (works|refused) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: (state == "works", words) for name, state, words in rows}


@pytest.mark.parametrize(("kind", "name", "act"), [pytest.param(*case, id=case[1]) for case in cases()])
def test_every_row_of_the_table_is_what_happens(kind, name, act):
    result = outcome(act)
    assert (result.works, result.words) == written()[name], "run `python tests/models_and_inputs.py`"


def test_the_table_has_no_other_rows():
    assert set(written()) == {name for _, name, _ in cases()}
