"""Older code beside the present one: entries are renewed if, and only if, both give the same numbers here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import firstlight
import warm
from firstlight.claims.beside import _differences, verify_beside
from firstlight.claims.ledger import read_entries
from firstlight.cli.claims import verify
from firstlight.core.errors import InvalidInput
from limits import COMMAND

CLAIM = "id.params.table1"
STUDY = Path("src/firstlight/claims/identity/parameter_counts.py")


class Repository:
    """A repository of its own that holds the present package, and a ledger recorded from its first commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        package = Path(firstlight.__file__).parent
        shutil.copytree(package, folder / "src" / "firstlight", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".gitignore").write_text(
            "__pycache__/\n"
        )  # as in the checkout: bytecode is no change of code
        self.git("init", "--quiet")
        self.commit()
        done = self.run("reproduce", CLAIM, "--scale", "smoke", "--record", "ledger", "--output", "page.html")
        assert done.returncode == 0, done.stderr

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
        done = subprocess.run(
            ["git", *identity, *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self) -> None:
        self.git("add", "src")
        self.git("commit", "--quiet", "--message", "state")

    def change(self, old: str, new: str) -> None:
        path = self.folder / STUDY
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def run(self, *words: str) -> subprocess.CompletedProcess:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "FIRSTLIGHT_RUNS": str(self.folder / "runs"),
        }
        return warm.run(["-m", "firstlight", *words], cwd=self.folder, env=environment, timeout=COMMAND)

    def verify(self, beside: str) -> subprocess.CompletedProcess:
        return self.run("claims", "verify", "ledger", "--scale", "smoke", "--beside", beside)

    def entry(self):
        (entry,) = read_entries(self.folder / "ledger" / "smoke" / "identity.json")
        return entry


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("repository"))


def test_entries_are_renewed_by_the_code_that_made_them_and_by_equal_numbers_only(repository):
    first = repository.git("rev-parse", "--short=12", "HEAD")
    repository.change("GREY = (1, 28, 28)", "GREY = (1, 28, 7 * 4)")
    repository.commit()
    same = repository.verify(first)
    assert same.returncode == 0, same.stderr
    verified = repository.entry().verified
    assert (verified["beside"], verified["scale"], verified["same"]) == (first, "smoke", "bits")
    assert verified["commit"] == repository.git("rev-parse", "--short=12", "HEAD")

    repository.change("7_379_200", "7_379_201")
    repository.commit()
    moved = repository.verify("HEAD~1")
    assert moved.returncode == 1
    assert "0.0 before, 1.0 now" in " ".join(moved.stdout.split())
    assert repository.entry().verified == verified

    foreign = repository.verify("HEAD")  # its code did not make the entry
    assert foreign.returncode == 1
    assert "other code or settings" in " ".join(foreign.stdout.split())
    assert repository.git("worktree", "list").count("\n") == 0


def test_an_unknown_commit_is_refused():
    with pytest.raises(InvalidInput, match="`--beside` must name a commit"):
        verify_beside([], "no-such-commit")


def test_uncommitted_changes_are_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr("firstlight.core.environment.code_commit", lambda: "0123456789ab+")
    with pytest.raises(InvalidInput, match="uncommitted changes"):
        verify(beside="HEAD")


def test_numbers_are_compared_in_the_digits_of_a_ledger():
    old = {"a": 0.123456, "b": float("nan"), "c": 1.0}
    assert _differences(old, {"a": 0.1234561, "b": float("nan"), "c": 1.0}) == ()
    assert [line[0] for line in _differences(old, {"a": 0.1236, "b": 0.0})] == ["a", "b", "c"]
