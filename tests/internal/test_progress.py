import os
import pty
import re
import subprocess
import sys
import time

from firstlight._internal import progress as progress_module
from firstlight._internal.executor import map_tasks, report_fraction
from firstlight._internal.progress import Plan, planned, progress, screen
from limits import COMMAND


def noted(task):
    report_fraction(0.5, note=f"loss {task}")
    return task


def test_findings_are_plain_lines_where_nobody_looks(capsys):
    with screen("Tour", show=False) as view:
        view.add("first layer", "0.98 [bold]")
        with progress("Training", total=2) as bar:
            bar.advance()
    shown = capsys.readouterr().err
    assert shown == "first layer: 0.98 [bold]\n"


def test_the_live_view_shows_findings_bars_and_the_time(capsys):
    with screen("Tour", show=True) as view:
        view.add("first layer", "0.98 [bold]")
        with progress("Training", total=4, show=True) as bar:
            bar.update(completed=1, note="loss 0.25")
            assert [task.description for task in view.bars.tasks] == ["Training"]
            assert view.bars.tasks[0].fields["note"] == "loss 0.25"
        assert view.bars.tasks == []
        assert view.passed.startswith("0:0")
    shown = capsys.readouterr().err
    assert "0.98 [bold]" in shown
    assert "done in 0:0" in shown


def test_how_a_task_stands_is_shown_beside_its_bar():
    assert map_tasks(noted, [1, 2], label="x", n_jobs=1, show=True) == [1, 2]
    with screen("Tour", show=True) as view:
        seen = []

        def look(task):
            report_fraction(0.5, note="loss 7")
            seen.append(view.bars.tasks[0].fields["note"])

        map_tasks(look, [1], label="Training", n_jobs=1, show=True)
    assert seen == ["loss 7"]


def test_a_terminal_gets_the_live_view():
    code = (
        "from firstlight._internal.progress import screen, progress\n"
        "with screen('Tour') as view:\n"
        "    view.add('part', 'number 42')\n"
        "    with progress('Training', total=1) as bar: bar.advance()\n"
    )
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
    assert "number 42" in shown
    assert "\x1b[" in shown


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
        with progress("inside", total=4, show=True) as bar:  # moves the plan, and shows nothing of its own
            bar.advance()
            time.sleep(0.3)
            assert plan.share == 0.25
    lines = capsys.readouterr().err.splitlines()
    assert lines
    said = re.compile(r"firstlight: gradients, (about \d:\d\d left|nearly done)\.")
    assert all(said.fullmatch(line) for line in lines)
    assert "about 0:0" in lines[-1]  # a quarter took less than a second
    with planned() as plan:  # a library call is silent where nobody looks
        plan.expect({"gradients": 60})
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
