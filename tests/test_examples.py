"""Every example runs as a user would run it: a script, in a folder of its own."""

import os
import re
from pathlib import Path

import pytest

import warm
from firstlight.cli.main import app
from firstlight.data.cache import is_cached
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


def test_the_example_workflow_names_flags_and_findings_that_exist():
    from firstlight.questions.inspect.findings import parsed_condition

    text = (Path(__file__).parents[1] / "examples" / "inspect-model.yml").read_text(encoding="utf-8")
    command = text.split("firstlight inspect ")[1].split(" | tee")[0]
    flags = {name for argument in app["inspect"].assemble_argument_collection() for name in argument.names}
    assert set(re.findall(r"--[a-z-]+", command)) <= flags
    conditions = re.findall(r"--fail-on '([^']+)'", command)
    assert [parsed_condition(condition)[0] for condition in conditions] == ["dead", "unmeasured"]
