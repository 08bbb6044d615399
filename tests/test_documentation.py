"""The documentation says what is there: names, commands, links, snippets, claims."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import firstlight
from api_surface import surface
from firstlight.claims import THEMES, all_claims
from firstlight.cli.main import app
from firstlight.core.registry import Registry

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if not {"_build", "gallery"} & set(p.relative_to(DOCS).parts))
WRITTEN = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FENCE = re.compile(r"^(?P<mark><!--[^\n]*-->\n)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
STUDY = "<!-- study -->\n"


def name_of(path):
    return str(path.relative_to(ROOT))


def documented():
    """Names that the API reference documents, in full."""
    found, module = set(), ""
    for page in sorted((DOCS / "api").glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            if set_module := re.match(r"\.\. (?:py:module|currentmodule):: (\S+)", line):
                module = set_module[1]
            elif item := re.match(r"\.\. (?:auto\w+|py:data):: (\S+)", line):
                found.add(f"{module}.{item[1]}")
    return found


def test_every_public_name_is_in_the_api_reference():
    top = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    there = documented() | {
        f"firstlight.{name}" for name in firstlight.__all__ if f"firstlight.{name}" in top
    }
    missing = sorted(surface().keys() - there)
    assert not missing, f"Add to docs/api/: {', '.join(missing)}."


def test_the_api_reference_names_nothing_that_is_gone():
    gone = sorted(n for n in documented() - surface().keys() if not n.startswith("firstlight.core."))
    assert not gone, f"Remove from docs/api/: {', '.join(gone)}."


@pytest.mark.parametrize("command", sorted(name for name in app if not name.startswith("-")))
def test_every_command_is_in_the_documentation(command):
    pages = [page for page in PAGES if f"firstlight {command}" in page.read_text(encoding="utf-8")]
    assert pages, f"`firstlight {command}` is not mentioned in docs/: getting-started.md has the table."


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_internal_links_resolve(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        path = (page.parent / target.split("#")[0]).resolve()
        if re.match(r"\w+://|mailto:|#", target) or path.exists():
            continue
        if path.parent == DOCS / "gallery" and (ROOT / "examples" / f"{path.name}.py").exists():
            continue  # made from the examples when the documentation is built
        broken.append(target)
    assert not broken, f"{name_of(page)} links to what is not there: {', '.join(broken)}."


def snippets(page):
    return [(found["mark"], found["code"]) for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(not mark for mark, _ in snippets(page))], ids=name_of
)
def test_snippets_run(page, capsys):
    # All of one page in order, as a reader types them. A comment `<!-- ... -->` above a fence leaves it out.
    names = {"__name__": "snippet"}
    for mark, code in snippets(page):
        if not mark:
            exec(compile(code, name_of(page), "exec"), names)
    assert len(names) > 2


def test_the_study_of_the_guide_is_judged(monkeypatch):
    page = DOCS / "add-a-measure-or-claim.md"
    (code,) = [code for mark, code in snippets(page) if mark == STUDY]
    # by name, for the package exports a function that is called like its module
    studies = importlib.import_module("firstlight.claims.study")
    monkeypatch.setattr(studies, "STUDIES", Registry("study"))
    exec(compile(code, name_of(page), "exec"), {"__name__": "firstlight.claims.first_layer.mixing"})
    made = studies.STUDIES["first_layer/mixing"]
    result = made.body.run(made.config("smoke"))
    rule = made.body.rules["profile.invariance"]
    assert rule.reproduced(result)
    assert rule.null(result)["unrelated filters"] > 0.1
    assert made.body.figure(result).title


def test_theme_pages_show_every_claim_once():
    shown = Counter()
    for page in sorted((DOCS / "themes").glob("*.md")):
        for theme, topics in re.findall(
            r"```\{ledger\} (\w+)\n(?::topics: ([^\n]+)\n)?", page.read_text(encoding="utf-8")
        ):
            wanted = [topic.strip() for topic in topics.split(",") if topic.strip()]
            known = {claim.topic for claim in all_claims().values() if claim.theme == theme}
            assert theme in THEMES
            assert set(wanted) <= known, f"{page.name}: topics of {theme} are {sorted(known)}."
            shown.update(
                c.id for c in all_claims().values() if c.theme == theme and (not wanted or c.topic in wanted)
            )
    assert shown == Counter(all_claims().keys())


def test_papers_and_version_agree_everywhere():
    papers = {claim.paper for claim in all_claims().values()}
    bibliography = (DOCS / "references.bib").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)) == papers
    assert set(re.findall(r"^    title: (\w+)$", citation, re.MULTILINE)) == papers
    assert f"\nversion: {firstlight.__version__}\n" in citation
