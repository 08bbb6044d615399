import os
import pty
import subprocess
import sys
import time

import pytest

from firstlight._internal import progress as progress_module
from firstlight._internal.executor import map_tasks, report_fraction
from firstlight._internal.progress import Plan, planned, progress, tell
from limits import COMMAND


def noted(task):
    report_fraction(0.5, note=f"loss {task}")
    return task


def test_a_finding_is_a_plain_line_where_nobody_looks(capsys):
    tell("first layer", "0.98 [bold]")
    with progress("Training", total=2) as bar:
        bar.advance()
    assert capsys.readouterr().err == "first layer: 0.98 [bold]\n"


def test_a_bar_within_another_stands_below_it():
    with progress("Networks", total=2, unit="done", show=True):
        shown = progress_module._shown
        with progress("Training", total=4, unit="steps", show=True) as bar:
            bar.update(completed=1, note="loss [0.25]")
            assert [task.description for task in shown.tasks] == ["Networks", "Training"]
            assert shown.tasks[1].fields == {"unit": "steps", "note": "loss [0.25]"}
        assert [task.description for task in shown.tasks] == ["Networks"]
    assert progress_module._shown is None


def test_how_a_task_stands_is_shown_beside_its_bar():
    assert map_tasks(noted, [1, 2], label="x", n_jobs=1, show=True) == [1, 2]
    seen = []

    def look(task):
        report_fraction(0.5, note="loss 7")
        seen.append(progress_module._shown.tasks[0].fields["note"])

    map_tasks(look, [1], label="Training", n_jobs=1, show=True)
    assert seen == ["loss 7"]


@pytest.mark.parametrize("unit", ["", "done", "bytes"])
def test_a_terminal_gets_bars_with_the_findings_above(unit):
    shown = on_a_terminal(
        "from firstlight._internal.progress import tell, progress\n"
        f"with progress('Training', total=1, unit={unit!r}) as bar:\n"
        "    tell('part', 'number [42]')\n"
        "    bar.advance()\n"
    )
    assert "part: number [42]" in shown
    assert "Training" in shown
    assert "\x1b[" in shown


def test_a_terminal_gets_one_bar_for_a_plan():
    shown = on_a_terminal(
        "import time\n"
        "from firstlight._internal.progress import planned, progress\n"
        "with planned() as plan:\n"
        "    plan.expect({'gradients': 60})\n"
        "    plan.begin('gradients')\n"
        "    with progress('inside', total=4) as bar: time.sleep(1)\n"
    )
    assert "gradients, about 0:" in shown
    assert "inside" not in shown


def on_a_terminal(code):
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", code],
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        timeout=COMMAND,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    return shown


def test_the_time_left_is_corrected_by_the_pace_so_far(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    plan = Plan()
    plan.expect({"accuracy": 10, "gradients": 20, "maps": 5})
    plan.begin("accuracy")
    assert plan.left == 35
    now[0] = 20.0  # twice as slow as planned
    plan.begin("gradients")
    assert plan.left == 50
    now[0] = 50.0
    plan.at(0.5)  # three times as slow
    assert plan.left == 30 + 5 * 50 / 20
    assert plan.share == 20 / 35
    plan.begin("maps")  # steps may be left out, and overrun
    now[0] = 1000.0
    assert plan.left > 0


def test_without_a_terminal_a_line_says_what_is_done_and_for_how_long(monkeypatch, capsys):
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.05)
    with planned(show=True) as plan:
        plan.expect({"gradients": 60})
        plan.begin("gradients")
        with progress("inside", total=100, show=True) as bar:  # moves the plan, and shows nothing of its own
            bar.advance()
            time.sleep(0.3)
            assert plan.share == 0.01
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert set(lines) <= {
        "firstlight: gradients, about 1:00 left.",
        "firstlight: gradients, about 0:59 left.",
    }
    with planned() as plan:  # a library call is silent where nobody looks
        plan.expect({"gradients": 60})
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
