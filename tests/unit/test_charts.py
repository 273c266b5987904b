"""Figures drawn for a grid of cells."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image
from textual.strip import Strip

from mahtab_tui.tui.charts import draw_chart, has_chart, read_chart
from mahtab_tui.tui.pictures import Picture, draw_blocks
from mahtab_tui.tui.theme import MAHTAB, Palette, role_variables
from mahtab_tui.tui.transcript.output import chart_size_in_cells
from mahtab_tui.worker.charts import METADATA_KEY

_THEME = {"foreground": MAHTAB.foreground, "surface": MAHTAB.surface, "panel": MAHTAB.panel}
PALETTE = Palette.of({**role_variables(MAHTAB), **{k: str(v) for k, v in _THEME.items()}})

PANEL: dict[str, Any] = {
    "box": [20, 10, 180, 90],
    "keeps_aspect": False,
    "has_axes": True,
    "title": "Fruit sold",
    "x_label": "month",
    "y_label": "tonnes",
    "y2_label": "",
    "x": [[0.25, "May"], [0.75, "June"]],
    "y": [[0.0, "10"], [1.0, "0"]],
    "y2": [],
    "legend": [["apples", "#ff0000"]],
    "notes": [[0.5, 0.5, "peak", "center"]],
    "grid": [False, False],
}


def encode_png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def described(*panels: dict[str, Any], **fields: Any) -> Image.Image:
    """Return a picture with these panels and other fields of a description. Its data are red on the
    left."""
    data = Image.new("RGBA", (200, 100), (0, 0, 0, 0))
    data.paste((255, 0, 0, 255), (0, 0, 100, 100))
    chart = {
        "size": [200, 100],
        "png": encode_png(data),
        "title": "",
        "panels": list(panels),
        **fields,
    }
    image = Image.new("RGB", (200, 100), "white")
    image.info[METADATA_KEY] = json.dumps(chart)
    return image


def drawn(image: Image.Image, columns: int = 40, rows: int = 12) -> list[Strip]:
    chart = read_chart(image)
    assert chart is not None
    return draw_chart(chart, columns, rows, PALETTE)


def texts(image: Image.Image, columns: int = 40, rows: int = 12) -> list[str]:
    strips = drawn(image, columns, rows)
    assert [strip.cell_length for strip in strips] == [columns] * rows
    return [strip.text for strip in strips]


def test_words_of_a_figure_are_text_around_its_data() -> None:
    rows = texts(described(PANEL))
    assert rows[0].split() == ["tonnes", "Fruit", "sold"]
    assert rows[1].split() == ["━━", "apples"]
    assert rows[2].startswith("10┤")
    assert rows[8].startswith(" 0┤")
    assert rows[9].startswith("  └")
    assert rows[9].count("┴") == 2
    assert rows[10].split() == ["May", "June"]
    assert rows[11].split() == ["month"]
    assert "peak" in rows[5]


def test_data_have_their_colours_on_the_ground_of_the_theme() -> None:
    middle = drawn(described({**PANEL, "notes": []}))[4]
    grounds = [segment.style.bgcolor for segment in middle if segment.style is not None]
    colours = [ground.get_truecolor().hex for ground in grounds if ground is not None]
    assert "#ff0000" in colours
    assert colours[-1] == str(MAHTAB.surface)


def test_panels_stand_beside_and_below_each_other() -> None:
    boxes = [[10, 10, 90, 40], [110, 10, 190, 40], [10, 60, 90, 90], [110, 60, 190, 90]]
    no_words: dict[str, Any] = {"legend": [], "notes": [], "x_label": "", "y_label": ""}
    panels = [
        {**PANEL, **no_words, "box": box, "title": f"panel {number}"}
        for number, box in enumerate(boxes)
    ]
    rows = texts(described(*panels, title="All"), 60, 20)
    assert rows[0].split() == ["All"]
    upper_row = next(row for row in rows if "panel 0" in row)
    lower_row = next(row for row in rows if "panel 2" in row)
    assert upper_row.index("panel 0") < 30 <= upper_row.index("panel 1")
    assert "panel 3" in lower_row
    assert rows.index(upper_row) < rows.index(lower_row)


def test_scale_of_colours_is_narrow_and_labelled_on_the_right() -> None:
    scale = {**PANEL, "box": [170, 10, 180, 90], "x": [], "y": [], "y2": [[0.5, "4.5"]]}
    scale |= {"legend": [], "notes": [], "title": "", "x_label": "", "y_label": ""}
    heat = {**PANEL, "box": [20, 20, 150, 80], "keeps_aspect": True, "legend": []}
    rows = texts(described(heat, scale), 60, 16)
    assert any(row.rstrip().endswith("4.5") for row in rows)


@pytest.mark.parametrize("size", [(1, 1), (8, 2), (30, 4), (200, 60)])
def test_a_figure_is_drawn_in_any_space(size: tuple[int, int]) -> None:
    texts(described(PANEL), *size)


@pytest.mark.parametrize(
    "broken",
    [
        {"panels": []},
        {"panels": [{}]},
        {"panels": [{**PANEL, "box": [5, 5, 5, 5]}]},
        {"panels": [{**PANEL, "box": ["x"] * 4}]},
        {"panels": [{**PANEL, "box": [0, 0, 9, float("inf")]}]},
        {"panels": [{**PANEL, "box": [300, 10, 400, 90]}]},
        {"panels": 7},
        {"png": "none"},
        {"png": encode_png(Image.new("1", (5_000, 10)))},
    ],
)
def test_a_foreign_description_is_not_drawn(broken: dict[str, Any]) -> None:
    image = described(PANEL, **broken)
    assert has_chart(image)
    assert read_chart(image) is None
    strips = draw_blocks(Picture("key", 20, 5, lambda: image, PALETTE))
    assert [strip.cell_length for strip in strips] == [20] * 5


def test_a_panel_is_drawn_as_far_as_it_is_in_the_figure() -> None:
    rows = texts(described({**PANEL, "box": [-60, -30, 260, 140]}), 40, 12)
    assert any("Fruit sold" in row for row in rows)


@pytest.mark.parametrize("position", [float("nan"), float("inf"), 1e300])
def test_notes_outside_of_any_place_are_left_out(position: float) -> None:
    rows = texts(described({**PANEL, "notes": [[position, 0.5, "nowhere", "left"]]}))
    assert not any("nowhere" in row for row in rows)


def test_hostile_words_do_not_reach_the_terminal() -> None:
    hostile = "\x1b[2J\u202e[bold]" + "x" * 10_000
    legend = [[hostile, hostile], ["no colour", "rgb( , , )"]]
    panel = {**PANEL, "title": hostile, "legend": legend, "y_label": hostile}
    text = "\n".join(texts(described(panel), 60, 12))
    assert not set(text) & set("\x1b\u202e")


@pytest.mark.parametrize(
    ("pixels", "available", "cells"),
    [
        ((640, 480), (72, 11), (72, 11)),
        ((1200, 300), (100, 24), (100, 12)),
        ((9, 9), (20, 3), (20, 8)),
    ],
)
def test_a_figure_is_as_wide_as_possible_and_seen_whole(
    pixels: tuple[int, int], available: tuple[int, int], cells: tuple[int, int]
) -> None:
    assert chart_size_in_cells(*pixels, *available) == cells
