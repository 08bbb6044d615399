"""Prices come from short runs of the real code; long runs go on where they were."""

import importlib
import json
import os
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

import warm
from firstlight.claims import STUDIES
from firstlight.claims.kept import KeptOutcomes
from firstlight.claims.lengths import LENGTHS, Length
from firstlight.claims.price import Price, Schedule, extrapolated, price
from firstlight.claims.rehearsal import Spent, rehearse, shortened
from firstlight.claims.reproduce import reproduce, run_seeds, studies_of
from firstlight.cli.main import main
from firstlight.cli.night import priced
from firstlight.core.errors import FirstlightError
from firstlight.core.parallel import cpu_seconds, keeping, map_tasks
from firstlight.store import Store
from limits import COMMAND

NIGHT = {name: STUDIES[name] for name in STUDIES if "night" in STUDIES[name].scales}
UNPRICED = {"linearized/tables"}


@dataclass(frozen=True)
class Settings:
    epochs: int = 100
    images: int = 1000
    pairs: tuple[str, ...] = ("a", "b", "c", "d", "e")


def at(cost, settings):
    return cost(Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}))


def predicted(cost, lengths, cfg):
    short = {name: value for length in lengths for name, value in length.at(cfg, 1).items()}
    base = at(cost, short)
    return base * extrapolated(cfg, [(one, at(cost, {**short, **one.at(cfg, 2)}) / base) for one in lengths])


@pytest.mark.parametrize(
    ("cost", "groups", "power"),
    [
        (lambda s: 3 + 0.1 * s.epochs, ((0,), (1,), (2,)), 1),
        (lambda s: 0.5 + 0.01 * s.epochs * s.images, ((0,), (0,), (1,)), 1),
        (lambda s: 2 + 0.01 * s.epochs * len(s.pairs) + 0.002 * s.images, ((0,), (1,), (0,)), 1),
        (lambda s: 1 + 0.1 * s.epochs + 1e-5 * s.images**2, ((0,), (1,), (2,)), 2),
    ],
    ids=["sum", "product", "sum of products", "square"],
)
def test_a_cost_of_the_form_of_the_model_is_found_exactly(cost, groups, power):
    lengths = (
        Length(names=("epochs",), short=2, groups=groups[0]),
        Length(names=("images",), short=50, groups=groups[1], power=power),
        Length(names=("pairs",), short=1, groups=groups[2]),
    )
    cfg = Settings()
    assert predicted(cost, lengths, cfg) == pytest.approx(cost(cfg))


def test_times_that_are_pure_noise_give_no_nonsense():
    length = Length(names=("epochs",), short=1)
    for doubled, expected in ((0.95, 1.0), (2.2, 100.0)):  # less than nothing grows; more than all
        assert extrapolated(Settings(), [(length, doubled)]) == pytest.approx(expected)


@pytest.mark.parametrize("name", sorted(NIGHT))
def test_every_study_of_the_night_has_lengths_that_its_settings_have(name):
    if name in UNPRICED:
        assert name not in LENGTHS
        return
    cfg = NIGHT[name].config("night")
    for length in LENGTHS[name]:
        for times in (1, 2):
            settings = {k: tuple(v) if isinstance(v, list) else v for k, v in length.at(cfg, times).items()}
            cut = shortened(cfg, settings)
            assert length.full(cut) == min(times * length.short, length.full(cfg))
    own = {length.groups[0] for length in LENGTHS[name] if len(length.groups) == 1}
    assert own == {group for length in LENGTHS[name] for group in length.groups}


@pytest.fixture
def warm_rehearsals(monkeypatch):
    """Rehearsals have processes of their own; here these need not import anything."""

    def run(command, *, capture_output, text, check, **options):
        assert (command[0], capture_output, text, check) == (sys.executable, True, True, False)
        return warm.run(command[1:], **options)

    monkeypatch.setattr("firstlight.claims.rehearsal.subprocess", SimpleNamespace(run=run))


def test_a_rehearsal_uses_no_stored_run_and_a_problem_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(tmp_path))
    study = STUDIES["identity/filter_size"]
    took = rehearse(study, scale="smoke", settings={"base.steps": 1})
    assert took.cpu_seconds > 0
    assert took.memory_bytes > 1e7
    assert not list(tmp_path.iterdir())
    with pytest.raises(FirstlightError, match="identity/filter_size"):
        rehearse(study, scale="smoke", settings={"base.steps": -1})
    assert price(STUDIES["linearized/tables"], scale="night", store=Store(tmp_path)).problem


def test_a_price_is_kept_and_not_rehearsed_again(tmp_path, monkeypatch):
    module = importlib.import_module("firstlight.claims.price")
    study, spent = STUDIES["learning_order/relu_spread"], iter([10.0 + i for i in range(100)])
    monkeypatch.setattr(module, "rehearse", lambda *_, **__: Spent(cpu_seconds=next(spent), memory_bytes=1e9))
    first = price(study, scale="desk", store=Store(tmp_path))
    assert first.problem == ""
    assert price(study, scale="desk", store=Store(tmp_path)) == first


def test_a_slope_within_the_noise_gives_a_wide_range(monkeypatch):
    module = importlib.import_module("firstlight.claims.price")
    study = STUDIES["learning_order/scale_matrices"]  # 10 of 5000 steps

    def times(share, noise):
        runs = iter((1.0, 1.0 + share, 1.0 + noise))
        monkeypatch.setattr(
            module, "rehearse", lambda *_, **__: Spent(cpu_seconds=next(runs), memory_bytes=1e9)
        )
        return module._priced(study, "night", LENGTHS[study.name])

    clear, lost = times(0.9, 0.01), times(0.03, 0.2)
    assert clear.high_seconds / clear.low_seconds < 4
    assert clear.low_seconds < clear.cpu_seconds < clear.high_seconds
    assert lost.high_seconds / lost.low_seconds > 50


def test_the_time_left_follows_the_pace_of_what_is_done(monkeypatch):
    module = importlib.import_module("firstlight.claims.price")
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("FIRSTLIGHT_JOBS", "1")
    prices = {"a": Price(study="a", cpu_seconds=100.0), "b": Price(study="b", problem="no data")}
    schedule = Schedule(prices, [("a", 0), ("a", 1), ("b", 0), ("a", 2)])
    assert schedule.seconds_left == schedule.cpu_seconds == 300
    schedule.start("a", 0)
    now[0] = 50.0
    assert schedule.seconds_left == 250
    now[0] = 200.0  # twice as long as priced
    schedule.start("a", 1)
    assert schedule.seconds_left == 400
    schedule.start("a", 2)
    now[0] = 1e6
    assert schedule.seconds_left == 0


def test_only_studies_with_night_settings_run_at_night(tmp_path):
    assert set(studies_of("identity", scale="night")) == {n for n in NIGHT if n.startswith("identity/")}
    (entry,) = reproduce("id.fig41.residual", scale="night", store=Store(tmp_path))
    assert entry.verdict == "not run"
    assert "--scale desk" in entry.reason
    assert len(STUDIES["identity/deep_constant"].seeds("night")) == 3


# ---------------------------------------------------------------- going on


def test_finished_tasks_are_not_done_again(tmp_path):
    done = []

    def work(task):
        if task == 3 and len(done) < 4:
            raise KeyboardInterrupt
        done.append(task)
        return {"square": torch.tensor(task * task)}

    def study():
        with keeping(KeptOutcomes(tmp_path)):
            first = map_tasks(work, [1, 2], label="A part", n_jobs=1)
            return first + map_tasks(work, [1, 3, 4], label="A part", n_jobs=1)

    with pytest.raises(KeyboardInterrupt):
        study()
    assert done == [1, 2, 1]
    done.append(0)
    assert [int(outcome["square"]) for outcome in study()] == [1, 4, 1, 9, 16]
    assert done == [1, 2, 1, 0, 3, 4]


def test_tasks_within_tasks_do_not_disturb_the_count_and_their_cost_is_kept(tmp_path):
    def inner(task):
        return sum(i * i for i in range(200_000 * task))

    def outer(task):
        return sum(map_tasks(inner, [task, task], label="inner", n_jobs=1))

    def study():
        with keeping(KeptOutcomes(tmp_path)):
            return map_tasks(outer, [1, 2], label="outer", n_jobs=1), map_tasks(
                inner, [3], label="last", n_jobs=1
            )

    start = cpu_seconds()
    once, middle = study(), cpu_seconds()
    assert study() == once
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "001-outer-0.safetensors", "001-outer-1.safetensors", "002-last-0.safetensors",
    ]  # fmt: skip
    assert cpu_seconds() - middle > 0.5 * (middle - start)  # what was spent before counts again


def test_what_cannot_be_written_is_done_again(tmp_path):
    kept = KeptOutcomes(tmp_path)
    kept.put("a", object(), 1.0)
    assert kept.get("a") is None
    kept.put("b", (1, torch.ones(2)), 2.5)
    outcome, seconds = kept.get("b")
    assert (outcome[0], outcome[1].tolist(), seconds) == (1, [1.0, 1.0], 2.5)


KILLED = """
import os, sys
from firstlight.claims import STUDIES
from firstlight.claims.linearized import pairs
from firstlight.claims.linearized.common import SMOKE
from firstlight.training import loop
from dataclasses import asdict
from firstlight.store import Store

loop.CHECKPOINT_SECONDS = 0.0
plan = pairs.LongPlan(**{**{f: getattr(SMOKE, f) for f in asdict(SMOKE)}, "rates": (0.01,), "width": 0.25},
                      network_epochs=6)
taken = loop._State.take_step
steps = 0
def step(self):
    global steps
    taken(self)
    steps += 1
    if steps == int(sys.argv[1]):
        os._exit(9)
loop._State.take_step = step
found = pairs.run_pairs([plan], label="")[0]
print(steps, found.network, found.linearised)
"""


def test_a_pair_that_is_killed_goes_on_in_the_middle_of_its_training(tmp_path):
    def start(die_at, folder):
        environment = {**os.environ, "FIRSTLIGHT_RUNS": str(tmp_path / folder), "FIRSTLIGHT_JOBS": "1"}
        return warm.run(["-c", KILLED, str(die_at)], env=environment, timeout=COMMAND)

    whole = start(0, "whole").stdout.split(maxsplit=1)
    assert start(4, "broken").returncode == 9
    rest = start(0, "broken").stdout.split(maxsplit=1)
    assert rest[1] == whole[1]
    assert int(whole[0]) - 4 <= int(rest[0]) < int(whole[0])


@pytest.mark.usefixtures("warm_rehearsals")
def test_the_command_prices_without_running(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(tmp_path))
    words = ["reproduce", "id.fig9", "--scale", "smoke", "--price"]
    monkeypatch.setattr(sys, "argv", ["firstlight", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "CPU hours" in said
    assert " to " in said
    assert "1 free core" in said
    stored = [
        json.loads((folder / "run.json").read_text())["what"]
        for folder in tmp_path.iterdir()
        if (folder / "run.json").exists()
    ]
    assert stored == ["price:identity/filter_size"]


def test_what_is_stored_is_not_rehearsed(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise AssertionError("nothing is left to price")

    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(tmp_path))
    run_seeds(STUDIES["linearized/counts"], (0,), scale="smoke", store=Store())
    monkeypatch.setattr("firstlight.claims.price.price", refuse)
    schedule = priced("lin.counts", scale="smoke", seed=0, n_seeds=1)
    assert schedule.seconds_left == 0
    assert "costs nothing" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="nothing is left"):
        priced("lin.counts", scale="smoke", seed=0, n_seeds=1, finished=True)
