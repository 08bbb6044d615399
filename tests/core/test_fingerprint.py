import ast

import pytest

from firstlight.core import fingerprint
from firstlight.core.fingerprint import code_fingerprint, reached_modules

MODULE = "firstlight.maths.psd"


@pytest.fixture
def rewritten(monkeypatch):
    """Pretend that a module reads differently."""

    def rewrite(name, change):
        original = fingerprint._source.__wrapped__

        def source(module):
            tree = original(module)
            return change(tree) if module == name else tree

        source.__wrapped__ = source
        monkeypatch.setattr(fingerprint, "_source", source)
        for cached in (fingerprint._module_hash, fingerprint._imports, fingerprint.reached_modules):
            cached.cache_clear()

    yield rewrite
    for cached in (fingerprint._module_hash, fingerprint._imports, fingerprint.reached_modules):
        cached.cache_clear()


def with_statement(text):
    def change(tree):
        tree.body.append(ast.parse(text).body[0])
        return tree

    return change


def with_docstring(tree):
    tree.body[0] = ast.parse('"""Other words."""').body[0]
    return tree


def test_code_counts_and_words_do_not(rewritten):
    before = code_fingerprint(MODULE)
    rewritten(MODULE, with_docstring)
    assert code_fingerprint(MODULE) == before
    rewritten(MODULE, with_statement("EXTRA = 1"))
    assert code_fingerprint(MODULE) != before


def test_a_change_counts_wherever_it_is_reached(rewritten):
    study = "firstlight.claims.identity.filter_size"
    before = code_fingerprint(study)
    rewritten("firstlight.training.loop", with_statement("EXTRA = 1"))
    assert code_fingerprint(study) != before


def test_only_what_is_reached_counts(rewritten):
    before = code_fingerprint(MODULE)
    rewritten("firstlight.training.loop", with_statement("EXTRA = 1"))
    assert code_fingerprint(MODULE) == before


def test_rules_figures_and_settings_of_a_study_do_not_count():
    source = """
@study
class Made:
    scales = {}
    rules = ()
    field = "kernel"

    def run(cls, cfg):
        return 1

    def figure(cls, evidence):
        return 2
"""
    kept = ast.unparse(fingerprint._WithoutWords().visit(ast.parse(source)))
    assert "rules" not in kept
    assert "scales" not in kept
    assert "figure" not in kept
    assert "kernel" in kept
    assert "return 1" in kept


def test_registered_models_are_reached_though_nobody_imports_them_by_name():
    reached = reached_modules("firstlight.claims.identity.filter_size")
    assert "firstlight.models.lenet" in reached
    assert "firstlight.data.sets.mnist" in reached
    assert "firstlight.training.loop" in reached
    assert not any(name.startswith(("firstlight.figures", "firstlight.report")) for name in reached)


def test_a_new_library_version_counts(monkeypatch):
    before = code_fingerprint(MODULE)
    monkeypatch.setattr(fingerprint, "package_versions", lambda: {"torch": "99"})
    assert code_fingerprint(MODULE) != before


def test_the_words_of_an_error_do_not_count_but_its_kind_does():
    def kept(line):
        return ast.dump(fingerprint._WithoutWords().visit(ast.parse(line)))

    assert kept("raise ValueError('too large')") == kept("raise ValueError(f'{x} is too large')")
    assert kept("raise ValueError('too large')") != kept("raise KeyError('too large')")
    assert kept("warn('too large')") != kept("warn('large')")


def test_of_a_package_only_the_parts_that_are_named_are_reached():
    def reached(source):
        return fingerprint._used("firstlight.models", "models", ast.parse(source))

    assert reached("models.build('lenet')") == {"firstlight.models.building"}
    assert reached("models.build('x'); models.linearize(y)") == {
        "firstlight.models.building",
        "firstlight.models.linearized",
    }
    assert reached("anything(models); models.build('x')") == {"firstlight.models"}


def test_reading_the_models_of_users_is_not_reached_by_a_study_that_builds_its_own():
    reached = reached_modules("firstlight.claims.identity.filter_size")
    assert "firstlight.models.loading" not in reached
    assert "firstlight.models.user_code" not in reached
