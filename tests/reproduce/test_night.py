"""Long runs: which studies have settings for them, and that they go on where they were."""

import os

import pytest
import torch

import warm
from firstlight._internal.executor import cpu_seconds, keeping, map_tasks
from firstlight._internal.store import Store
from firstlight.networks.bank import load_network, network_names
from firstlight.networks.definitions import definition
from limits import COMMAND
from reproduce.catalogue import claims, departures, studies
from reproduce.run import KeptOutcomes, reproduce, studies_of

NIGHT = [name for name in studies() if "night" in studies()[name].scales]


def test_only_studies_with_night_settings_run_at_night(tmp_path):
    assert set(studies_of("identity", scale="night")) == {n for n in NIGHT if n.startswith("identity/")}
    (entry,) = reproduce("id.fig41.residual", scale="night", store=Store(tmp_path))
    assert entry.verdict == "not run"
    assert "--scale desk" in entry.reason
    assert len(studies()["identity/deep_constant"].seeds("night")) == 3


def test_profiles_of_the_bank_take_one_trained_network_a_seed():
    study = studies()["first_layer/consistency"]
    cfg = study.at_scale("night")
    assert study.seeds("night") == study.seeds("night", count=5) == tuple(range(len(cfg.networks)))
    assert {*cfg.networks, cfg.other_network} <= set(network_names())
    kinds = [definition(name)[0] for name in cfg.networks]
    assert {(k.spec.name, k.recipe.epochs, k.recipe.batch_size) for k in kinds} == {
        (cfg.model, cfg.epochs, cfg.batch_size)
    }


def test_profiles_of_the_bank_state_what_the_cards_of_their_networks_say():
    study = studies()["first_layer/consistency"].at_scale("night", seed=1)
    card = load_network("small-cifar10-1").card["recipe"]
    assert study.settings["recipe"] == {name: value for name, value in card.items() if name != "seed"}
    found = departures(claims()["profile.table1.seeds"], study.settings, n_seeds=3)
    assert (found["rate"], found["schedule"]) == ("0.2 instead of 0.1", "one_cycle instead of constant")
    assert "optimiser" not in found
    assert "recipe" not in studies()["first_layer/consistency"].at_scale("desk").settings


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
from reproduce.studies.linearized import pairs
from reproduce.studies.linearized.common import (SMOKE)
from firstlight.training import loop
from dataclasses import asdict
from firstlight._internal.store import Store

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
