"""Figures drawn for a grid of cells."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from rich.cells import cell_len
from textual.strip import Strip

from mahtab_tui.tui.pictures.block_cache import draw_blocks
from mahtab_tui.tui.pictures.chart import has_chart, read_chart
from mahtab_tui.tui.pictures.chart_drawing import draw_chart
from mahtab_tui.tui.pictures.picture import SizedPicture
from mahtab_tui.tui.theme import MAHTAB, Palette, role_variables
from mahtab_tui.tui.transcript.picture_rows import chart_size_in_cells
from mahtab_tui.worker.values.charts import METADATA_KEY, chart_metadata

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


def test_legend_with_many_entries_stands_beside_the_data() -> None:
    legend = [["year", ""], *([f"sales in {year}", "#ff0000"] for year in range(2010, 2022))]
    rows = texts(described({**PANEL, "legend": legend}), 90, 20)
    assert "Fruit sold" in rows[0]
    assert any(row.rstrip().endswith(" year") for row in rows)
    entries = [row[row.index("━━") :].rstrip() for row in rows if "━━" in row]
    assert entries == [f"━━ {label}" for label, _ in legend[1:]]
    assert all(row.index("━━") > 60 for row in rows if "━━" in row)


def test_legend_without_space_says_how_many_entries_it_lacks() -> None:
    legend = [[f"sales in {year}", "#ff0000"] for year in range(2000, 2020)]
    rows = texts(described({**PANEL, "legend": legend}), 40, 12)
    assert rows[1].split() == "━━ sales in 2000 ━━ sales in 2001".split()
    assert rows[2].split() == ["━━", "sales", "in", "2002", "…", "17", "more"]


def figure_picture(figure: Figure) -> Image.Image:
    """Return a picture with the description of a figure."""
    FigureCanvasAgg(figure)
    image = Image.new("RGB", (200, 100), "white")
    image.info.update(chart_metadata(figure))
    return image


def plotted(anchor: tuple[float, float] | None, *, by_figure: bool = False) -> Image.Image:
    """Return a figure of two lines, with a legend that is anchored to the axes."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], label="rain")
    axes.plot([2, 1], label="sun")
    if by_figure:
        figure.legend(loc="center right", title="weather")
    else:
        axes.legend(title="weather", loc="upper left", bbox_to_anchor=anchor)
    return figure_picture(figure)


@pytest.mark.parametrize("by_figure", [False, True])
def test_legend_outside_of_the_axes_stands_outside(by_figure: bool) -> None:
    rows = texts(plotted((1.02, 1.0), by_figure=by_figure), 80, 20)
    column = next(row.index("weather") for row in rows if "weather" in row)
    assert column > 60
    for label in ("━━ rain", "━━ sun"):
        assert next(row.index(label) for row in rows if label in row) == column


def test_legend_inside_of_the_axes_stands_above_them() -> None:
    rows = texts(plotted(None), 80, 20)
    assert rows[0].split() == ["weather", "━━", "rain", "━━", "sun"]


def test_legends_that_were_added_as_artists_are_not_lost() -> None:
    figure = Figure()
    axes = figure.subplots()
    (line,) = axes.plot([1, 2])
    axes.add_artist(axes.legend([line], ["first"], loc="upper left"))
    axes.legend([line], ["second"], loc="lower right")
    image = Image.new("RGB", (200, 100), "white")
    image.info.update(chart_metadata(figure))
    text = "\n".join(texts(image, 80, 20))
    assert "first" in text
    assert "second" in text


def test_words_of_several_lines_are_not_lost() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3])
    axes.set_title("rain\nin Berlin")
    axes.set_xlabel("day\nof June")
    axes.set_xticks([0, 1, 2], ["Mon\n1st", "Tue\n2nd", "Wed\n3rd"])
    axes.annotate("wet\nday", (1, 2))
    text = "\n".join(texts(figure_picture(figure), 80, 20))
    for words in ("rain in Berlin", "day of June", "Mon 1st", "wet day"):
        assert text.count(words) == 1


def test_words_of_a_table_stand_in_its_axes() -> None:
    figure = Figure()
    figure.subplots().table([["wet", "5 mm"]], loc="center")
    row = next(row for row in texts(figure_picture(figure), 80, 20) if "wet" in row)
    assert "5 mm" in row


def test_words_of_a_figure_beside_its_axes_stand_above_them() -> None:
    figure = Figure()
    figure.suptitle("rain")
    figure.supxlabel("day")
    figure.text(0.1, 0.1, "source: DWD")
    part: Any = figure.subfigures(1, 1)
    part.suptitle("Berlin")
    part.subplots().plot([1, 2])
    rows = texts(figure_picture(figure), 80, 20)
    assert rows[0].strip() == "rain · day · source: DWD · Berlin"


def test_words_with_characters_of_two_columns_are_drawn_whole() -> None:
    panel = {**PANEL, "title": "上海 price", "notes": [[0.5, 0.5, "峰", "center"]]}
    image = described(panel)
    chart = read_chart(image)
    assert chart is not None
    strips = draw_chart(chart, 60, 16, PALETTE)
    text = "\n".join(strip.text for strip in strips)
    assert "上海 price" in text
    assert "峰" in text
    assert {strip.cell_length for strip in strips} == {60}
    assert {cell_len(strip.text) for strip in strips} == {60}


def test_gaps_between_bars_survive_in_cells() -> None:
    figure = Figure()
    axes = figure.subplots()
    bars = axes.barh(list("abcdefghij"), range(10, 20))
    before = [bar.get_height() for bar in bars]
    chart = json.loads(chart_metadata(figure)[METADATA_KEY])
    assert [bar.get_height() for bar in bars] == before
    data = Image.open(io.BytesIO(base64.b64decode(chart["png"])))
    left, top, _, bottom = chart["panels"][0]["box"]
    opacity = data.getchannel("A")
    column = [bool(opacity.getpixel((left + 20, y))) for y in range(int(top), int(bottom))]
    assert sum(column) < 0.6 * len(column)
    touching = axes.bar(range(5), range(5), width=1.0)
    chart_metadata(figure)
    assert [bar.get_width() for bar in touching] == [1.0] * 5


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


def test_heat_map_stands_beside_its_scale_and_the_words_above_them() -> None:
    figure = Figure()
    axes = figure.add_subplot(title="Heat")
    figure.colorbar(axes.imshow([[1, 2], [3, 4]]), label="kelvin")
    rows = texts(figure_picture(figure), 100, 20)
    words = rows[0]
    frame = next(row for row in rows if "└" in row)
    map_start = frame.index("└")
    map_end = len(frame[: frame.rindex("─") + 1])
    assert map_start > 20
    assert map_start < words.index("Heat") < map_end
    assert 0 <= words.index("kelvin") - map_end <= 3


def test_pie_is_in_the_middle_and_has_no_axis() -> None:
    figure = Figure()
    figure.add_subplot().pie([3, 2, 1], labels=["left", "down", "right"])
    rows = texts(figure_picture(figure), 100, 20)
    assert not any("│" in row for row in rows)
    starts = [len(row) - len(row.lstrip()) for row in rows if row.strip()]
    assert min(starts) > 20


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
    strips = draw_blocks(SizedPicture("key", 20, 5, lambda: image, PALETTE))
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
