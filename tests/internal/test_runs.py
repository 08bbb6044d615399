import collections
import importlib
import json
import pkgutil
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import firstlight
import warm
from firstlight._internal import files
from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.result import Result
from firstlight._internal.store import RunSpec, Store, decode, encode
from firstlight.training import History
from machines import wait_until

SPEC = RunSpec(what="test", config={"a": 1, "b": (0.5, None)}, data="d")
RESULT = History(
    loss=torch.tensor([1.0, 0.5], dtype=torch.float64),
    hits=torch.tensor([0.0, float("nan")]),
    steps_per_epoch=2,
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text().filter(lambda k: not k.startswith("$")), inner)
    ),
    max_leaves=10,
)


@given(plain)
def test_plain_values_survive_encoding(value):
    tree, arrays = encode(value)
    assert decode(json.loads(json.dumps(tree)), arrays) == value


def test_a_result_comes_back_as_its_own_type(store):
    run = store.fetch_or_run(SPEC, lambda scratch: {"history": RESULT, "note": "fine"})
    again = store.load(run.id)
    history = again.result["history"]
    assert isinstance(history, History)
    assert torch.equal(history.loss, RESULT.loss)
    assert torch.isnan(history.hits[1])
    assert again.spec == SPEC
    assert again.environment["torch"].startswith("2.")


def test_one_array_under_two_names_is_stored_twice(store):
    whole = torch.arange(6.0)
    result = store.fetch_or_run(SPEC, lambda scratch: {"a": whole, "b": whole, "part": whole[2:4]}).result
    assert torch.equal(result["a"], result["b"])
    assert torch.equal(result["part"], whole[2:4])


def test_a_finished_run_is_not_computed_again(store):
    store.fetch_or_run(SPEC, lambda scratch: 1)
    assert store.fetch_or_run(SPEC, lambda scratch: pytest.fail("computed twice")).result == 1


def test_the_name_depends_on_everything_that_decides_the_result():
    others = [
        RunSpec(what="test2", config=SPEC.config, data="d"),
        RunSpec(what="test", config={"a": 2, "b": (0.5, None)}, data="d"),
        RunSpec(what="test", config=SPEC.config, data="e"),
        RunSpec(what="test", config=SPEC.config, data="d", version="x"),
    ]
    assert len({SPEC.id, *(o.id for o in others)}) == 5
    assert RunSpec(what="test", config={"b": (0.5, None), "a": 1}, data="d").id == SPEC.id


def test_a_process_that_was_killed_when_all_was_written_leaves_nothing_for_good(store):
    spec = store.fetch_or_run(SPEC, lambda scratch: 1).spec
    for id in (spec.id, "0123456789abcdef"):  # of the second nothing was written yet but its checkpoint
        (store.root / ".scratch" / id).mkdir()
        (store.root / ".scratch" / id / "checkpoint").touch()
        (store.root / ".scratch" / f".{id}.firstlight.lock").touch()
    files._swept.clear()
    left = sorted(path.name for path in Store(store.root).root.glob(".scratch/*"))
    assert left == ["0123456789abcdef"]


def test_a_failed_run_leaves_its_scratch_and_no_folder(store):
    def fail(scratch):
        (scratch / "checkpoint").write_text("half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        store.fetch_or_run(SPEC, fail)
    assert store.ids() == []
    assert store.fetch_or_run(SPEC, lambda scratch: (scratch / "checkpoint").read_text()).result == "half"
    assert not list(store.root.glob(".scratch/*/*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "arrays.safetensors").write_bytes(b"short"),
        lambda f: (f / "arrays.safetensors").unlink(),
        lambda f: (f / "run.json").write_text("{"),
        lambda f: (f / "run.json").write_text((f / "run.json").read_text().replace('"a": 1', '"a": 2')),
        lambda f: (f / "run.json").unlink(),
        lambda f: (f / "run.json").write_text("[]"),
    ],
)
def test_a_damaged_run_is_named_and_never_used(store, damage):
    run = store.fetch_or_run(SPEC, lambda scratch: RESULT)
    damage(run.folder)
    with pytest.raises(StoreProblem, match=f"Run {run.id} is damaged"):
        store.load(run.id)
    with pytest.raises(StoreProblem, match="firstlight runs rm"):
        store.fetch_or_run(SPEC, lambda scratch: RESULT)
    assert store.ids() == [run.id]
    store.remove(run.id[:6])
    assert store.ids() == []


def test_a_run_cannot_name_a_foreign_class(store):
    for name in ("system", "os:system", "Store", "firstlight._internal.store.runs:Store", "../encoding", ""):
        with pytest.raises(StoreProblem, match="does not know"):
            decode({"$result": name, "fields": {"command": "true"}}, {})


READ = """
import sys
from firstlight._internal.store import decode
before = set(sys.modules)
result = decode({"$result": "History", "fields": {"loss": 1, "hits": 2, "steps_per_epoch": 3}}, {})
assert type(result).__module__ == "firstlight.training.loop" in set(sys.modules) - before
"""


def test_a_result_is_read_by_a_process_that_has_not_imported_its_class():
    subprocess.run([sys.executable, "-c", READ], check=True)


def test_no_two_kinds_of_results_share_a_name():
    for module in pkgutil.walk_packages(firstlight.__path__, "firstlight."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    kinds, waiting = set(), [Result]
    while waiting:
        waiting += (subclasses := waiting.pop().__subclasses__())
        kinds |= {kind for kind in subclasses if kind.__module__.startswith("firstlight.")}
    names = collections.Counter(kind.__name__ for kind in kinds)
    assert not [name for name, count in names.items() if count > 1]


def test_what_cannot_be_stored_is_refused_with_its_place():
    @dataclass
    class Foreign:
        x: int = 0

    with pytest.raises(TypeError, match=r"cannot store a Foreign at 'a\.1'"):
        encode({"a": [1, Foreign()]})


def test_unknown_and_ambiguous_names_are_refused(store):
    with pytest.raises(InvalidInput, match="No run begins with 'zz'"):
        store.find("zz")
    for a in range(20):
        store.fetch_or_run(RunSpec(what="test", config={"a": a}), lambda scratch: 0)
    first = next(d for d in "0123456789abcdef" if sum(i.startswith(d) for i in store.ids()) > 1)
    with pytest.raises(InvalidInput, match="runs begin with"):
        store.find(first)


def test_a_run_costs_what_it_reuses_once_each(tmp_path):
    store = Store(tmp_path)
    part = RunSpec(what="part", config={})
    store.write(part, {"x": 1.0}, wall_seconds=1, cpu_seconds=100.0)

    def compute(scratch):
        for _ in range(3):
            store.fetch_or_run(part, lambda scratch: {"x": 2.0})
        return {"y": 1.0}

    whole = store.fetch_or_run(RunSpec(what="whole", config={}), compute)
    assert 100 <= whole.cpu_seconds < 200
    again = store.fetch_or_run(RunSpec(what="other", config={}), compute)
    assert 100 <= again.cpu_seconds < 200, "another computation that reuses it pays for it again"


def test_a_run_folder_under_another_name_is_refused(tmp_path):
    store, spec = Store(tmp_path), RunSpec(what="test", config={})
    store.write(spec, {"x": torch.ones(2)}, wall_seconds=0.0, cpu_seconds=0.0)
    (tmp_path / spec.id).rename(tmp_path / ("0" * 16))
    with pytest.raises(StoreProblem, match=f"it is run {spec.id} under another name"):
        store.load("0" * 16)


STOPPED = """
import os, signal, sys
from pathlib import Path
from firstlight._internal.result import Result
from firstlight._internal.store import RunSpec, Store
def compute(scratch):
    (scratch / "begun").touch()
    os.kill(os.getpid(), signal.SIGSTOP)
    return 5
print(Store(Path(sys.argv[1])).fetch_or_run(RunSpec(what="test", config={}, data="d"), compute).result)
"""


def test_a_run_whose_process_was_stopped_is_computed_by_another_and_both_end(store, monkeypatch):
    """A worker that never answers holds the lock of its run; without this the next worker waited forever."""
    monkeypatch.setattr("firstlight._internal.store.runs.PATIENCE", 1.0)
    spec = RunSpec(what="test", config={}, data="d")
    other = warm.Popen(["-c", STOPPED, str(store.root)], stdout=subprocess.PIPE, text=True)
    try:
        begun = store.root / ".scratch" / spec.id / "begun"
        wait_until(begun.exists)
        assert store.fetch_or_run(spec, lambda scratch: 5).result == 5
        other.send_signal(signal.SIGCONT)
        assert other.communicate(timeout=60)[0] == "5\n"
    finally:
        other.kill()
        other.communicate()
    assert store.fetch_or_run(spec, lambda scratch: 6).result == 5
    assert not begun.exists()
