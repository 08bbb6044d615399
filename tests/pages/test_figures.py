import base64
import dataclasses
import io
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from firstlight.pages.figures import (
    Curve,
    Dots,
    Figure,
    curves,
    dots,
    film,
    heatmap,
    moving_parts,
    picture_grid,
    svg,
)
from firstlight.pages.figures.pictures import mosaic, png_uri, signed_to_pixels, sprite
from firstlight.pages.figures.style import ROLES


def test_a_curve_shows_mean_range_and_table():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    figure = curves([Curve(name="a", values=values)], title="t", alt="x", x="step", y="energy")
    band, line = figure.plot["data"]
    assert line["y"] == [2.0, 3.0]
    assert band["y"] == [3.0, 4.0, 2.0, 1.0]
    assert figure.table["a"] == [2.0, 3.0]
    assert figure.plot["layout"]["xaxis"]["title"] == "step"


def test_a_single_run_has_no_band_and_roles_decide_the_look():
    made = [Curve(name=role, values=torch.rand(1, 3), role=role) for role in ROLES]
    figure = curves(made, title="t", alt="x", x="x", y="y", at=[1, 10, 100], log_x=True)
    assert len(figure.plot["data"]) == len(ROLES)
    assert [trace["line"]["colour"] for trace in figure.plot["data"]] == [r.colour for r in ROLES.values()]
    assert figure.plot["layout"]["xaxis"]["type"] == "log"


def test_theory_and_null_are_drawn_lighter_than_measurements():
    for quiet in ("theory", "null", "initial"):
        assert ROLES[quiet].dash != "solid"
        assert ROLES[quiet].width < ROLES["trained"].width


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_pictures_of_any_channel_count_are_valid_png(channels):
    figure = picture_grid(torch.randn(7, channels, 3, 4), title="t", alt="x")
    raw = base64.b64decode(figure.plot["data"][0]["source"].split(",")[1])
    assert Image.open(io.BytesIO(raw)).mode == "RGB"


def test_zero_is_middle_grey_and_signs_are_symmetric():
    pixels = signed_to_pixels(torch.tensor([[[[-2.0, 0.0, 2.0]]], [[[0.0, 0.0, 0.0]]]]))
    assert pixels.flatten().tolist() == [0.0, 0.5, 1.0, 0.5, 0.5, 0.5]


def test_a_mosaic_places_every_picture_once():
    images = torch.arange(6).reshape(6, 1, 1, 1) / 5
    canvas = mosaic(images, columns=3, zoom=1, gap=0)
    assert canvas[..., 0].tolist() == [[0, 51, 102], [153, 204, 255]]
    assert np.asarray(Image.open(io.BytesIO(base64.b64decode(png_uri(canvas).split(",")[1])))).shape == (
        2,
        3,
        3,
    )


def test_columns_of_different_length_are_a_bug():
    with pytest.raises(AssertionError, match="different length"):
        Figure(plot={}, title="t", alt="x", table={"a": [1], "b": [1, 2]})


HOSTILE = "</text><script>alert(1)</script>&\"'"


def every_kind():
    spread = [torch.tensor([0.1, 0.4]), torch.tensor([float("nan")] * 2)]
    series = [
        Dots.of("null", spread, role="null"),
        Dots.of("m", spread),
        Dots.of("i", spread, role="initial"),
    ]
    words = {"title": "t", "alt": HOSTILE}
    return [
        curves([Curve(name="a", values=torch.rand(2, 4)), Curve(name="b", values=torch.rand(1, 4), role="null")],
               **words, x="x", y=HOSTILE),
        curves([Curve(name="a", values=torch.tensor([[1e-3, 0.0, 10.0]]))], **words, x="x", y="y", at=[1, 10, 1000],
               log_x=True, log_y=True),
        dots([HOSTILE, "b"], series, **words, x="layer", y="y"),
        heatmap(torch.randn(3, 2), rows=[HOSTILE, "b", "c"], columns=["d", "e"], **words, symmetric=False),
        picture_grid(torch.randn(5, 3, 3, 3), **words),
    ]  # fmt: skip


@pytest.mark.parametrize("index", range(5))
def test_every_kind_of_figure_is_sound_svg_without_scripts(index):
    figure = every_kind()[index]
    tree = ElementTree.fromstring(svg(figure))
    assert tree.get("aria-label") == HOSTILE
    kinds = {element.tag.split("}")[1] for element in tree.iter()}
    assert kinds & {"polyline", "circle", "rect", "image"}
    assert "script" not in kinds
    assert figure._repr_html_() == svg(figure)


def test_svg_places_points_where_the_values_are():
    figure = curves(
        [Curve(name="a", values=torch.tensor([[0.0, 5.0, 10.0]]))], title="t", alt="a", x="x", y="y"
    )
    tree = ElementTree.fromstring(svg(figure))
    points = next(e for e in tree.iter() if e.tag.endswith("polyline")).get("points").split()
    (x0, y0), (x1, y1), (x2, y2) = (map(float, p.split(",")) for p in points)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2


def test_a_film_holds_only_what_changes_and_one_scale_for_all():
    values = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 8.0]])]
    still = Curve(name="still", values=torch.tensor([[0.0, 1.0]]), role="null")
    moments = [curves([Curve(name="a", values=v), still], title="t", alt="a", x="x", y="y") for v in values]
    whole = film(moments, ["start", "end"], time="step", title="T", alt="A")
    assert [sorted(change) for change in whole.frames[0].data] == [["y"], []]
    assert whole.at(whole.frames[0])["data"][0]["y"] == [1.0, 2.0]
    low, high = whole.plot["layout"]["yaxis"]["range"]
    assert low < 0
    assert high > 8
    assert whole.table["step"] == ["start", "start", "end", "end"]
    assert whole.table["a"] == [1.0, 2.0, 3.0, 8.0]


def test_the_key_names_each_series_once_with_its_band():
    first, second = every_kind()[0].key()
    assert (first.name, first.mark, first.traces) == ("a", "line", (0, 1))
    assert second.dash == "dash"
    assert [entry.mark for entry in every_kind()[2].key()] == ["bar", "dot", "ring"]
    assert every_kind()[1].key() == ()


def test_a_sprite_holds_every_picture():
    pictures = sprite(torch.randn(7, 3, 3, 3), name="component")
    assert (pictures.n, pictures.columns, pictures.rows) == (7, 3, 3)
    raw = base64.b64decode(pictures.source.split(",")[1])
    assert Image.open(io.BytesIO(raw)).size == (9, 9)


def test_small_pictures_list_their_values_and_large_ones_a_summary():
    small = picture_grid(torch.full((2, 1, 2, 2), 0.5), title="t", alt="a")
    assert small.table["0,1,1"] == [0.5, 0.5]
    large = picture_grid(torch.rand(4, 3, 32, 32), title="t", alt="a", signed=False)
    assert list(large.table) == ["picture", "mean", "sd", "lowest", "highest"]


def titles(figure, frame=None):
    tree = ElementTree.fromstring(svg(figure, frame=frame))
    return [element.text for element in tree.iter() if element.tag.endswith("title")]


def test_every_mark_says_its_value_even_on_lines_without_points():
    few, many = (
        curves([Curve(name="a", values=torch.linspace(0, 1, n)[None])], title="t", alt="a", x="x", y="y")
        for n in (3, 100)
    )
    assert titles(few) == ["a: 0 at 1", "a: 0.5 at 2", "a: 1 at 3"]
    assert len(titles(many)) == 100
    columns = dots(
        ["b", "c"],
        [
            Dots.of("m", [torch.tensor([0.1, 0.3]), torch.tensor([0.5, 0.5])]),
            Dots.of("null", [torch.tensor([0.25])] * 2, role="null"),
        ],
        title="t",
        alt="a",
        y="y",
    )
    # a null without a range is drawn as a thin bar, whose height is no range and is not told as one
    assert titles(columns) == ["b, null: 0.25", "c, null: 0.25", "b, m: 0.2 (0.1 to 0.3)", "c, m: 0.5"]
    assert titles(heatmap(torch.tensor([[0.5]]), rows="r", columns="c", title="t", alt="a")) == ["r, c: 0.5"]


def test_every_series_is_a_group_of_its_own():
    tree = ElementTree.fromstring(svg(every_kind()[0]))
    groups = [e for e in tree.iter() if e.get("class") == "trace"]
    assert [g.get("data-trace") for g in groups] == ["0", "1", "2"]


def test_points_are_numbered_where_pictures_belong_to_them():
    plain = curves(
        [Curve(name="a", values=torch.tensor([[1.0, float("nan"), 2.0]]))], title="t", alt="a", x="x", y="y"
    )
    pictured = dataclasses.replace(plain, sprite=sprite(torch.randn(3, 1, 2, 2), name="component"))
    numbers = [
        e.get("data-point") for e in ElementTree.fromstring(svg(pictured)).iter() if e.tag.endswith("circle")
    ]
    assert numbers == ["0", "2"]
    assert "data-point" not in svg(plain)


def test_the_moving_parts_of_a_film_are_what_its_frames_draw():
    values = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 8.0]])]
    still = Curve(name="still", values=torch.tensor([[0.0, 1.0]]), role="null")
    moments = [curves([Curve(name="a", values=v), still], title="t", alt="a", x="x", y="y") for v in values]
    whole = film(moments, ["0", "1", "2"], time="step", title="T", alt="A")
    first, second, last = moving_parts(whole)
    assert last == ""
    for part, frame in ((first, whole.frames[0]), (second, whole.frames[1])):
        assert part in svg(whole, frame=frame)
        assert part.count('class="trace"') == 1
    assert first not in svg(whole)
    assert moving_parts(still_figure := moments[0]) == ()
    assert still_figure.frames == ()


def test_a_matrix_without_room_for_numbers_has_a_bar_that_explains_its_colours():
    words = {"title": "t", "alt": "a"}
    small, large = (
        heatmap(torch.eye(n), rows=[str(i) for i in range(n)], columns=[str(i) for i in range(n)], **words)
        for n in (3, 20)
    )
    written = [
        [e.text for e in ElementTree.fromstring(svg(f)).iter() if e.tag.endswith("text")]
        for f in (small, large)
    ]
    assert "1.00" in written[0]
    assert "-1" not in written[0]
    assert {"-1", "1"} <= set(written[1])
    assert "1.00" not in written[1]


def test_a_logarithmic_axis_of_columns_has_whole_decades():
    series = [Dots.of("n", [torch.tensor([v]) for v in (0.0, 3.0, 2000.0)])]
    figure = dots("abc", series, title="t", alt="a", y="y", log_y=True)
    assert figure.plot["layout"]["yaxis"]["range"] == [0, 4]
    assert titles(figure) == ["b, n: 3", "c, n: 2,000"]


def test_columns_are_added_to_a_table_without_changing_the_figure():
    figure = every_kind()[0]
    before = dict(figure.table)
    assert figure.with_columns({"more": range(4)}).table["more"] == [0, 1, 2, 3]
    assert figure.table == before


@pytest.mark.parametrize(
    ("n", "ticks"), [(32, [f"layer {i}" for i in range(32)]), (33, ["1", *map(str, range(5, 34, 5))])]
)
def test_many_columns_are_numbered_and_named_under_the_pointer_and_in_the_table(n, ticks):
    names = [f"layer {i}" for i in range(n)]
    figure = dots(names, [Dots.of("a", [torch.tensor([1.0])] * n)], title="t", alt="a", x="layer", y="y")
    assert figure.plot["layout"]["xaxis"]["ticktext"] == ticks
    assert figure.table["layer"] == names
    assert "layer 10" in figure.plot["data"][0]["text"][10]


def test_names_that_do_not_fit_below_columns_become_rows_from_top_to_bottom():
    names = [f"stage{i}.block.convolution" for i in range(5)]
    values = [torch.tensor([low, low + 0.2]) for low in (0.0, 0.6, 0.2, 0.4, 0.1)]
    series = [
        Dots.of("a", values),
        Dots.of("null", [torch.tensor([0.1 * i, 0.1 * i + 0.3]) for i in range(5)], role="null"),
    ]
    columns, rows = (
        dots(list(given), series, title="t", alt="a", x="layer", y="correlation")
        for given in ("abcde", names)
    )
    assert "rows" not in columns.plot["layout"]
    tree = ElementTree.fromstring(svg(rows))
    circles = [e for e in tree.iter() if e.tag.endswith("circle")]
    down = [float(c.get("cy")) for c in circles]
    across = [float(c.get("cx")) for c in circles]
    assert down == sorted(down)
    assert sorted(range(5), key=across.__getitem__) == [0, 4, 2, 3, 1]
    words = {e.text: e for e in tree.iter() if e.tag.endswith("text")}
    first = words[f"{names[0][:9]}…{names[0][-12:]}"]  # at the height of its point
    assert float(first.get("y")) == pytest.approx(down[0] + 4, abs=0.2)
    assert {"layer", "correlation"} <= words.keys()
    bars = [e for e in tree.iter() if e.tag.endswith("rect")]
    assert len({e.get("width") for e in bars}) == 1  # all nulls span 0.3
    assert float(bars[0].get("width")) > 3 * float(bars[0].get("height"))
    assert titles(rows)[5] == f"{names[0]}, a: 0.1 (0 to 0.2)"


def test_points_of_a_curve_may_have_names():
    figure = curves(
        [Curve(name="a", values=torch.tensor([[1.0, 2.0]]))], title="t", alt="a", x="layer", y="y"
    )
    named = figure.with_names(["stem", "head"])
    assert "<title>stem, a: 1</title>" in svg(named)
    assert named.plot["layout"]["xaxis"]["ticktext"] == ["stem", "head"]
    assert "text" not in figure.plot["data"][0]
