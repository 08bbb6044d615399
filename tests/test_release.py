"""The texts of a release are checked: each fault is named, and a release without faults passes."""

import sys

import pytest

import release
from release import changelog_faults, citation_faults, ledger_faults

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-11-20

### Added
- A thing.

## [0.1.0] - 2026-11-16
"""
CITATION = "version: 0.2.0\ndate-released: 2026-11-20\n"
ENTRIES = [{"version": "0.2.0", "date": "2026-11-20"}, {"version": "", "date": ""}]


def test_a_release_whose_texts_agree_has_no_faults():
    assert not changelog_faults(CHANGELOG, "0.2.0")
    assert not citation_faults(CITATION, CHANGELOG, "0.2.0")
    assert not ledger_faults(ENTRIES, "0.2.0")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n- Another.\n", "stand under [Unreleased]"),
        ("## [0.2.0] - 2026-11-20\n\n### Added\n- A thing.\n\n", "", "newest section is [0.1.0]"),
        (" - 2026-11-20", "", "has no date"),
    ],
)
def test_a_changelog_that_is_not_finished_is_named(old, new, words):
    (fault,) = changelog_faults(CHANGELOG.replace(old, new), "0.2.0")
    assert words in fault


def test_a_citation_of_another_version_or_day_is_named():
    assert len(citation_faults(CITATION.replace("0.2.0", "0.1.0"), CHANGELOG, "0.2.0")) == 1
    assert len(citation_faults(CITATION.replace("-20", "-19"), CHANGELOG, "0.2.0")) == 1


def test_a_ledger_of_another_version_is_named_with_its_days():
    old = [*ENTRIES, {"version": "0.1.0", "date": "2026-11-16"}]
    (fault,) = ledger_faults(old, "0.2.0")
    assert "1 of 2 claims were run by another version, from 2026-11-16" in fault
    assert ledger_faults([], "0.2.0") == ["reproduce/ledger: no claim has run."]


def test_a_python_that_does_not_start_is_not_tried_and_named(tmp_path, monkeypatch):
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\necho command not found\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert release.is_python(sys.executable)
    for python in ("python3.99", "python3.98"):
        assert release.not_tried(python, tmp_path / "environment") == f"{python} is not installed"
    assert not (tmp_path / "environment").exists()


def test_a_torch_that_cannot_be_had_is_not_tried_and_no_fault(monkeypatch, capsys):
    monkeypatch.setattr(release, "texts", list)
    monkeypatch.setattr(
        release, "built_wheel", lambda folder: (folder / "firstlight-0-py3.whl").touch() or []
    )
    calls = {"venv": [], "install": ["pip install\nNo matching distribution"]}
    monkeypatch.setattr(
        release, "run", lambda *command, cwd=None: next((calls[c] for c in command if c in calls), [])
    )
    monkeypatch.setattr(sys, "argv", ["release.py", "--python", sys.executable])
    assert release.main() == 0
    said = capsys.readouterr().out
    assert (
        f"not tried  clean install, {sys.executable}: torch==2.13.0 cannot be installed: No matching" in said
    )
    assert "good       wheel" in said
