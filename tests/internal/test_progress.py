import os
import pty
import subprocess
import sys

from firstlight._internal.executor import map_tasks, report_fraction
from firstlight._internal.progress import progress, screen
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
