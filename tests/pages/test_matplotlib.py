"""Our figures on matplotlib's axes hold the numbers of the figure, and their files are whole."""

import re

import matplotlib
import pytest
import torch
from PIL import Image

from firstlight._internal.errors import InvalidInput
from firstlight.pages.figures import Curve, Dots, curves, dots, heatmap, picture_grid

matplotlib.use("Agg")

WORDS = {"title": "A title", "alt": "words"}


def line_figure(**more):
    values = torch.tensor([[1.0, 2.0, 4.0], [3.0, 2.0, 8.0]])
    series = [Curve(name="mine", values=values), Curve(name="null", values=values[:1], role="null")]
    return curves(series, x="step", y="size", **WORDS, **more)


def dot_figure(n=3, **more):
    series = [
        Dots.of("null", [torch.tensor([0.1, 0.3])] * n, role="null"),
        Dots.of("mine", [torch.tensor([0.2, 0.8])] * (n - 1) + [torch.tensor([float("nan")])]),
    ]
    return dots([f"a layer with a long name {i}" for i in range(n)], series, y="share", **WORDS, **more)


def test_curves_are_drawn_with_their_bands_names_and_axes():
    axes = line_figure(log_y=True).to_matplotlib()
    mine, null = axes.get_lines()
    assert mine.get_xdata().tolist() == [1, 2, 3]
    assert mine.get_ydata().tolist() == [2, 2, 6]
    assert null.get_linestyle() == "--"
    assert len(axes.patches) == 1
    assert axes.patches[0].get_path().vertices[:, 1].max() == 8  # the band reaches the largest run
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mine", "null"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("step", "size", "A title")
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_dots_that_are_columns_stand_as_columns_and_those_that_are_rows_as_rows():
    figure = dot_figure()
    assert figure.plot["layout"]["rows"]
    axes = figure.to_matplotlib()
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.2] * 3)
    assert axes.yaxis_inverted()
    assert [t.get_text() for t in axes.get_yticklabels()] == figure.plot["layout"]["xaxis"]["ticktext"]
    assert axes.get_xlabel() == "share"
    (points,) = axes.get_lines()[:1]
    assert points.get_xdata()[:2].tolist() == [0.5, 0.5]
    few = dots(["a", "b"], [Dots.of("mine", [torch.tensor([0.2, 0.8])] * 2)], y="share", **WORDS)
    upright = few.to_matplotlib()
    assert upright.get_lines()[0].get_ydata().tolist() == [0.5, 0.5]
    assert not upright.yaxis_inverted()


def test_a_matrix_has_its_numbers_or_a_bar():
    small = heatmap(torch.tensor([[1.0, -1.0]]), rows=["r"], columns=["a", "b"], **WORDS).to_matplotlib()
    assert [text.get_text() for text in small.texts] == ["1.00", "-1.00"]
    large = heatmap(torch.eye(13), rows=["r"] * 13, columns=list("abcdefghijklm"), **WORDS).to_matplotlib()
    assert not large.texts
    assert len(large.figure.axes) == 2


def test_pictures_keep_their_pixels_and_crosses():
    figure = picture_grid(torch.randn(5, 3, 4, 4), marked={1: "dead"}, **WORDS)
    axes = figure.to_matplotlib()
    height, width = axes.images[0].get_array().shape[:2]
    assert [width, height] == [
        figure.plot["layout"]["xaxis"]["range"][1],
        figure.plot["layout"]["yaxis"]["range"][0],
    ]
    assert len(axes.get_lines()) == 1


def test_two_figures_share_one_sheet_and_are_saved_as_pdf(tmp_path):
    from matplotlib import pyplot

    sheet, (left, right) = pyplot.subplots(1, 2)
    assert line_figure().to_matplotlib(left) is left
    assert dot_figure().to_matplotlib(ax=right) is right
    sheet.savefig(tmp_path / "both.pdf")
    pyplot.close(sheet)
    assert (tmp_path / "both.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
@pytest.mark.parametrize(
    "figure",
    [line_figure(), dot_figure(), heatmap(torch.eye(2), rows="ab", columns="cd", **WORDS),
     picture_grid(torch.randn(5, 1, 4, 4), **WORDS)],
    ids=["curves", "dots", "heatmap", "pictures"],
)  # fmt: skip
def test_a_figure_is_saved_in_three_formats_and_always_as_the_same_bytes(figure, ending, tmp_path):
    first = figure.save(tmp_path / f"one.{ending}")
    second = figure.save(str(tmp_path / f"two.{ending.upper()}"))
    assert first.read_bytes() == second.read_bytes()
    start = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}[ending]
    assert first.read_bytes().startswith(start)
    if ending == "png":
        assert min(Image.open(first).size) > 150


def test_saving_leaves_no_figure_open_and_an_unknown_ending_is_refused(tmp_path):
    from matplotlib import pyplot

    pyplot.close("all")
    line_figure().save(tmp_path / "a.png")
    assert pyplot.get_fignums() == []
    with pytest.raises(InvalidInput, match=re.escape("`path` must end in .svg, .pdf, .png; got 'a.jpg'.")):
        line_figure().save(tmp_path / "a.jpg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png"]
