"""Figures whose runs cannot be read are left out, and it is said."""

from firstlight._internal.store import RunSpec, Store
from reproduce.catalogue import studies
from reproduce.entries import Entry
from reproduce.run import study_figures


def test_a_figure_of_a_damaged_run_is_not_left_out_silently(tmp_path, capsys):
    store, spec = Store(tmp_path), RunSpec(what="test", config={})
    store.write(spec, {"x": 1.0}, wall_seconds=0.0, cpu_seconds=0.0)
    entry = Entry(
        claim="a", theme="b", statement="c", exact=False, reported="", verdict="reproduced", scale="smoke",
        study=next(iter(studies())), seeds=[0], runs=[spec.id],
    )  # fmt: skip
    (tmp_path / spec.id / "arrays.safetensors").write_bytes(b"damaged")
    assert study_figures([entry], store) == {}
    assert f"The figure of {entry.study} is left out. Run {spec.id} is damaged" in capsys.readouterr().err
    store.remove(spec.id)  # stored elsewhere: that is no fault
    assert study_figures([entry], store) == {}
    assert capsys.readouterr().err == ""
