"""Every example runs as a user would run it: a script, in a folder of its own."""

import ast
import importlib
import os
import re
from pathlib import Path

import pytest
import torch

import warm
from firstlight.cli.main import app
from firstlight.data.cache import is_cached
from firstlight.pages.figures import picture_grid
from limits import COMMAND

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    if '"cifar10"' in example.read_text(encoding="utf-8") and not is_cached("cifar10"):
        pytest.skip("CIFAR-10 is not in the cache")
    one_core = {"OMP_NUM_THREADS": "1", "FIRSTLIGHT_JOBS": "1", "FIRSTLIGHT_RUNS": str(tmp_path / "runs")}
    done = warm.run([example], cwd=tmp_path, env={**os.environ, **one_core}, timeout=COMMAND)
    assert done.returncode == 0, f"{example.name} failed:\n{done.stdout}\n{done.stderr}"
    assert done.stdout.strip(), f"{example.name} printed nothing: a reader learns nothing from it."


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_opens_with_a_title_for_the_gallery(example):
    opening = example.read_text(encoding="utf-8").splitlines()
    assert opening[0] == '"""'
    assert set(opening[2]) == {"="}
    assert len(opening[2]) >= len(opening[1])


def test_a_figure_becomes_a_thumbnail_once_and_other_values_do_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "docs" / "_ext")
    save = importlib.import_module("gallery_figures").save_figure
    figure = picture_grid(torch.zeros(2, 1, 3, 3), title="Two", alt="Two grey squares")
    names = {"___": torch.zeros(3)}
    block = {
        "example_globals": names,
        "image_path_iterator": iter([str(tmp_path / "a.png"), str(tmp_path / "b.png")]),
    }
    save(None, block, {})
    assert not list(tmp_path.iterdir())
    names["___"] = figure
    save(None, block, {})
    save(None, block, {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_draws_something(example):
    """The last expression of a part is what the gallery shows."""
    parts = ast.parse(example.read_text(encoding="utf-8")).body
    ends = [node.value for node in parts if isinstance(node, ast.Expr)]
    called = [end.func if isinstance(end, ast.Call) else end for end in ends]
    drawn = {getattr(end, "id", "") or getattr(end, "attr", "") for end in called}
    assert drawn & {"curves", "dots", "heatmap", "picture_grid", "figure"}


def test_the_example_workflow_names_flags_and_findings_that_exist():
    from firstlight.questions.inspect.findings import parsed_condition

    text = (Path(__file__).parents[1] / "examples" / "inspect-model.yml").read_text(encoding="utf-8")
    command = text.split("firstlight inspect ")[1].split(" | tee")[0]
    flags = {name for argument in app["inspect"].assemble_argument_collection() for name in argument.names}
    assert set(re.findall(r"--[a-z-]+", command)) <= flags
    conditions = re.findall(r"--fail-on '([^']+)'", command)
    assert [parsed_condition(condition)[0] for condition in conditions] == ["dead", "unmeasured"]
