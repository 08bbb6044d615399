import inspect

from api_surface import broken_by, described, surface, written_down

REFRESH = "If this is meant, say so in CHANGELOG.md and run `python tests/api_surface.py`."


def test_no_public_name_disappears_or_changes_its_signature():
    gone, changed = broken_by(surface(), written_down())
    assert not gone, f"Public names disappeared: {', '.join(gone)}. {REFRESH}"
    assert not changed, "Signatures changed:\n" + "\n".join(changed) + f"\n{REFRESH}"


def test_a_removal_and_a_new_signature_break_the_surface_and_a_new_name_does_not():
    before = {"f": "(x)", "g": "(x)"}
    assert broken_by({"f": "(x)", "g": "(x)", "h": "(x)"}, before) == ([], [])
    assert broken_by({"f": "(x)"}, before)[0] == ["g"]
    assert "is  (x, y)" in broken_by({"f": "(x, y)", "g": "(x)"}, before)[1][0]


def test_a_changed_default_changes_what_is_written_down():
    assert described(lambda x, *, n=1: x) != described(lambda x, *, n=2: x)
    assert described(inspect.Parameter).startswith("class (")


def test_signatures_hold_no_addresses():
    assert not [name for name, said in written_down().items() if " at 0x" in said]
