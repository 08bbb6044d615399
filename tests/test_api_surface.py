import inspect

from api_surface import described, surface, written_down

REFRESH = "If this is meant, say so in CHANGELOG.md and run `python tests/api_surface.py`."


def test_the_public_surface_is_the_one_written_down():
    now, before = surface(), written_down()
    gone = sorted(before.keys() - now.keys())
    new = sorted(now.keys() - before.keys())
    changed = [f"{n}\n    was {before[n]}\n    is  {now[n]}" for n in now if before.get(n, now[n]) != now[n]]
    assert not gone, f"Public names disappeared: {', '.join(gone)}. {REFRESH}"
    assert not changed, "Signatures changed:\n" + "\n".join(changed) + f"\n{REFRESH}"
    assert not new, f"Public names are new: {', '.join(new)}. {REFRESH}"


def test_a_changed_default_changes_what_is_written_down():
    assert described(lambda x, *, n=1: x) != described(lambda x, *, n=2: x)
    assert described(inspect.Parameter).startswith("class (")


def test_signatures_hold_no_addresses():
    assert not [name for name, said in written_down().items() if " at 0x" in said]
