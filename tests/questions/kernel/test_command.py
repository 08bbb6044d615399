"""`firstlight rfm` on the embedded photographs: one page, one saved machine that predicts the same."""

import json
import random

import pytest
import torch

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.memory_layout import ALIGNMENT
from firstlight.cli.options import OutputFormat
from firstlight.estimators import ConvRFMClassifier, DeepConvRFMClassifier, load_machine, save_machine
from firstlight.questions.kernel.command import predict, rfm
from firstlight.questions.kernel.measure import learn_kernel
from firstlight.questions.kernel.page import rfm_page
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise


def test_the_command_writes_a_page_and_a_machine_that_predicts(tmp_path, capsys):
    page, machine = tmp_path / "rfm.html", tmp_path / "machine"
    rfm(n=40, n_test=16, depth=1, rounds=1, agop_images=8, network=False, output_machine=machine, output=page)
    said = capsys.readouterr()
    assert "Accuracy on " in said.out
    for labels in ("true", "shuffled"):
        assert f"{labels} labels, round 0: validation error" in said.err
    assert "shuffled" in page.read_text()
    predict(machine, n=16, form=OutputFormat(json=True))
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["predictions"]) == 16
    assert sorted(p.name for p in machine.iterdir()) == ["machine.json", "machine.safetensors"]


def test_every_round_is_kept_and_shown_beside_shuffled_labels():
    train, test = (
        bars_in_noise(n, sigma=0.5, seed=0, split=s, rows=6, columns=8)
        for n, s in ((60, "train"), (30, "test"))
    )
    for solver in ("exact", "features"):
        machine = ConvRFMClassifier(depth=1, rounds=2, patience=None, solver=solver, filters=8)
        learned = learn_kernel(train, test, train.x[:2], machine=machine, with_network=False)
        assert len(learned.rounds) == len(learned.shuffled_rounds) == 3
        assert learned.pictures(learned.rounds).shape == (2, 8, 1, 3, 3)
        spectra = learned.spectra(learned.rounds)
        assert torch.allclose(spectra.sum(1), torch.ones(3, dtype=torch.float64))
        largest = torch.linalg.eigvalsh(learned.rounds[2].metric)[-1] / learned.rounds[2].metric.trace()
        assert float(spectra[2, 0]) == pytest.approx(float(largest))
        # true labels are learned, shuffled ones are not
        assert learned.rounds[learned.best].error < min(done.error for done in learned.shuffled_rounds)
        page = rfm_page(learned)
        assert any(section.title == "How does M change round by round?" for section in page.sections)
        alone = machine.set_params(rounds=0)
        plain = rfm_page(learn_kernel(train, test, train.x[:2], machine=alone, with_network=False))
        assert all(section.title != "How does M change round by round?" for section in plain.sections)


def test_too_few_images_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("firstlight.data.catalogue.load_splits", None)  # nothing is loaded
    with pytest.raises(InvalidInput, match="`n` must be at least 20: a fifth of the images chooses"):
        rfm(n=3, output=tmp_path / "rfm.html")


@pytest.mark.parametrize("kind", [ConvRFMClassifier, DeepConvRFMClassifier])
def test_a_saved_machine_predicts_as_before(kind, tmp_path):
    data = bars_in_noise(30, sigma=0.5, seed=0, rows=6, columns=8)
    machine = kind(depth=2, rounds=1).fit(data.x, data.y.numpy())
    again = load_machine(save_machine(machine, tmp_path / "saved"))
    assert (again.decision_function(data.x) == machine.decision_function(data.x)).all()
    for name in ("x_fit_", "dual_coef_", "metric_"):
        assert getattr(again, name).stride() == getattr(machine, name).stride()
        assert (
            getattr(again, name).data_ptr() % ALIGNMENT == getattr(machine, name).data_ptr() % ALIGNMENT == 0
        )
    with pytest.raises(InvalidInput, match="must not exist"):
        save_machine(machine, tmp_path / "saved")


def test_a_folder_that_holds_no_machine_is_refused(tmp_path):
    (tmp_path / "machine.json").write_text('{"type": "os.system"}')
    with pytest.raises(InvalidInput, match="could not be read"):
        load_machine(tmp_path)


def test_a_flipped_bit_in_a_saved_machine_is_noticed(tmp_path):
    data, rng = bars_in_noise(12, sigma=0.5, seed=0, rows=6, columns=8), random.Random(0)
    machine = ConvRFMClassifier(depth=1, rounds=0).fit(data.x, data.y.numpy())
    for file in save_machine(machine, tmp_path / "saved").iterdir():
        intact = file.read_bytes()
        for _ in range(40):
            changed = bytearray(intact)
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            file.write_bytes(changed)
            with pytest.raises(InvalidInput, match="could not be read"):
                load_machine(tmp_path / "saved")
        file.write_bytes(intact)
    save_machine(machine.set_params(depth=2).fit(data.x, data.y.numpy()), tmp_path / "other")
    (tmp_path / "other" / "machine.json").replace(tmp_path / "saved" / "machine.json")
    with pytest.raises(InvalidInput, match="of another machine"):
        load_machine(tmp_path / "saved")


def test_a_machine_that_cannot_be_saved_does_not_cost_the_page(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    page, options = tmp_path / "rfm.html", {"depth": 1, "rounds": 1, "agop_images": 8, "network": False}
    with pytest.raises(StoreProblem, match="Cannot write"):
        rfm(n=40, n_test=16, output_machine=tmp_path / "file" / "machine", output=page, **options)
    assert "shuffled" in page.read_text()


def test_maps_are_pictures_between_0_and_1():
    from firstlight.questions.kernel.measure import metric_map

    images = torch.rand(2, 1, 6, 7, generator=torch.Generator().manual_seed(0))
    maps = metric_map(images, torch.eye(9, dtype=torch.float64), 3)
    assert maps.shape == (2, 1, 4, 5)
    assert float(maps.min()) == 0.0
    assert float(maps.max()) == 1.0
