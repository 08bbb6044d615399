"""Our label scores in cleanlab's Datalab, and its probabilities in ours; where cleanlab is installed.

cleanlab's Datalab brings pyarrow, 170 MB, and is no dependency of the tests for that reason:
`pip install cleanlab[datalab]` beside the environment runs them.
"""

import sys

import numpy as np
import pytest
import torch

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.questions.labels.datalab import _register, add_to_datalab
from firstlight.questions.labels.probabilities import check_probabilities


def planted(n=120, classes=3, wrong=9):
    """Images of which the first few have a wrong label, and probabilities that know the right one."""
    generator = np.random.default_rng(0)
    right = np.arange(n) % classes
    labels = right.copy()
    labels[:wrong] = (right[:wrong] + 1) % classes
    rows = generator.dirichlet(np.ones(classes), n) * 0.3
    rows[np.arange(n), right] += 0.7
    x = torch.from_numpy(generator.random((n, 1, 4, 4), dtype=np.float32))
    return ImageData(x, torch.from_numpy(labels), tuple("abc"), {}, ()), rows


def test_probabilities_come_as_an_array_too(tmp_path):
    data, rows = planted()
    np.save(tmp_path / "p.npy", rows)
    from_array, from_file = (check_probabilities(data, p) for p in (rows, tmp_path / "p.npy"))
    assert torch.equal(from_array.suspicion, from_file.suspicion)
    with pytest.raises(
        InvalidInput, match=r"`probabilities` must hold floating-point numbers of shape \(120, 3\)"
    ):
        check_probabilities(data, rows[:, :2])


def test_without_cleanlab_the_message_says_what_to_install(monkeypatch):
    data, rows = planted()
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    monkeypatch.setitem(sys.modules, "cleanlab.datalab.internal.issue_manager", None)
    _register.cache_clear()
    with pytest.raises(InvalidInput, match=r"Run: pip install 'cleanlab\[datalab\]'"):
        add_to_datalab(check_probabilities(data, rows), None)


def test_our_scores_stand_beside_those_of_cleanlab():
    cleanlab = pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    data, rows = planted()
    check = check_probabilities(data, rows)
    lab = cleanlab.Datalab({"y": data.y.numpy()}, label_name="y", verbosity=0)
    lab.find_issues(pred_probs=rows, issue_types={"label": {}})
    before = lab.issues.copy()
    _register.cache_clear()
    for _ in range(2):  # once more replaces what was there
        add_to_datalab(check, lab)
    ours = lab.get_issues("firstlight_label")
    assert ours.is_firstlight_label_issue.tolist() == [i < 9 for i in range(120)]
    assert np.allclose(ours.firstlight_label_score, 1 - check.suspicion.numpy())
    assert lab.issues[before.columns].equals(before)
    assert "firstlight_label" in set(lab.issue_summary.issue_type)
    short = cleanlab.Datalab({"y": data.y.numpy()[:50]}, label_name="y", verbosity=0)
    with pytest.raises(InvalidInput, match="`lab` must hold the 120 images of the check"):
        add_to_datalab(check, short)


def test_suspicion_from_probabilities_ranks_as_their_normalised_margin():
    rank = pytest.importorskip("cleanlab.rank", reason="cleanlab is not installed")
    data, rows = planted()
    theirs = rank.get_label_quality_scores(data.y.numpy(), rows, method="normalized_margin")
    order = check_probabilities(data, rows).suspicion.argsort(descending=True, stable=True)
    assert order.tolist() == np.argsort(theirs, kind="stable").tolist()
