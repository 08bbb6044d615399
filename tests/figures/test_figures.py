import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from firstlight.figures import Curve, Figure, curves, heatmap, mosaic, picture_grid, png_uri, signed_to_pixels
from firstlight.figures.style import ROLES


def test_a_curve_shows_mean_range_and_table():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    figure = curves([Curve(name="a", values=values)], title="t", alt="x", x="step", y="energy")
    band, line = figure.plot["data"]
    assert line["y"] == [2.0, 3.0]
    assert band["y"] == [3.0, 4.0, 2.0, 1.0]
    assert figure.table["a"] == [2.0, 3.0]
    assert figure.plot["layout"]["xaxis"]["title"]["text"] == "step"


def test_a_single_run_has_no_band_and_roles_decide_the_look():
    made = [Curve(name=role, values=torch.rand(1, 3), role=role) for role in ROLES]
    figure = curves(made, title="t", alt="x", x="x", y="y", at=[1, 10, 100], log_x=True)
    assert len(figure.plot["data"]) == len(ROLES)
    assert [trace["line"]["color"] for trace in figure.plot["data"]] == [r.colour for r in ROLES.values()]
    assert figure.plot["layout"]["xaxis"]["type"] == "log"


def test_theory_and_null_are_drawn_lighter_than_measurements():
    for quiet in ("theory", "null", "initial"):
        assert ROLES[quiet].dash != "solid"
        assert ROLES[quiet].width < ROLES["trained"].width


def test_plotly_accepts_every_figure():
    graph = pytest.importorskip("plotly.graph_objects")
    made = [
        curves([Curve(name="a", values=torch.rand(2, 4))], title="t", alt="x", x="x", y="y"),
        heatmap(torch.eye(3), rows="abc", columns="abc", title="t", alt="x"),
        picture_grid(torch.randn(5, 3, 3, 3), title="t", alt="x"),
        picture_grid(torch.rand(1, 1, 8, 8), title="t", alt="x", signed=False),
    ]
    for figure in made:
        assert graph.Figure(figure.plot).data


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
