"""Figures that a cell draws: when they are shown, and what is said about them. One kernel, which
has loaded matplotlib, draws them all."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator

import pytest
from PIL import Image

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.tui.pictures.chart import Chart, read_chart
from tests.integration.kernels import Cells, running, show

PLOT = "plt.plot([1, 2, 3]);"
DATES = "np.array(['2024-01-01', '2024-06-01'], 'M8[D]')"
FIGURE = """
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
figure.suptitle("Cars")
left.plot([1, 2, 3], [5, float("nan"), 9], label="mpg")
left.set(title="Use\\nof fuel", xlabel="year", yscale="log")
left.legend()
right.bar([f"category number {number}" for number in range(12)], range(12))
plt.show()
"""


@pytest.fixture(scope="module")
def plotting_kernel() -> Iterator[Cells]:
    with running(ProcessKernel()) as cells:
        cells.run("import matplotlib.pyplot as plt, numpy as np")
        yield cells


@pytest.fixture
def cells(plotting_kernel: Cells) -> Iterator[Cells]:
    yield plotting_kernel
    plotting_kernel.run("plt.close('all')")


def drawn_chart(cells: Cells, code: str) -> Chart:
    """Run code that draws one figure, and return what its picture says about it."""
    (display,) = show(cells, code)
    with Image.open(io.BytesIO(base64.b64decode(display.data))) as image:
        chart = read_chart(image)
    assert chart is not None
    return chart


def test_unshown_figure_ends_its_cell(cells: Cells) -> None:
    assert [display.mime for display in show(cells, PLOT)] == ["image/png"]
    assert show(cells, "1") == []
    assert len(show(cells, "figure, axes = plt.subplots()\nfigure")) == 1
    assert len(show(cells, "figure")) == 1


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "line", ["plt.plot([1])", "plt.title('x')", "plt.hist([1, 2])", "plt.subplots(1, 2)[1]"]
)
def test_result_of_plotting_is_not_shown_below_its_figure(cells: Cells, line: str) -> None:
    result = cells.run(line)
    assert (len(result.displays), result.output) == (1, result.displays[0].text)
    assert "matplotlib" in cells.text("axes = plt.Figure().subplots()\ntype(axes).__module__")
    assert "Axes" in cells.text("axes"), "without a figure, it is a value as any other"


def test_parts_of_other_figures_are_values_while_a_figure_is_open(cells: Cells) -> None:
    cells.run("from matplotlib.figure import Figure\nfrom matplotlib.lines import Line2D")
    values = {
        "[Figure()]": "[<Figure",
        "Figure().subplots()": "<Axes",
        "Line2D([0], [1])": "<matplotlib.lines",
    }
    for value, text in values.items():
        result = cells.run(f"plt.plot([1])\n{value}")
        (figure,) = result.displays
        assert result.output.replace(figure.text, "").startswith(text)
    inner = "plt.figure().subfigures(1, 2)[0].subplots()"
    for value in (inner, "plt.subplots()", "plt.bar([], [])", "plt.bar([1], [1])"):
        result = cells.run(value)
        assert (len(result.displays), result.output) == (1, result.displays[0].text), value


def test_figure_carries_its_chart_and_is_unchanged(cells: Cells) -> None:
    code = (
        "figure, axes = plt.subplots(figsize=(5, 3), layout='constrained')\n"
        "axes.plot([0, 1], [5, 9], label='growth')\n"
        "axes.set(title='Title', xlabel='time', ylabel='size')\n"
        "axes.legend()\n"
        "before = figure.dpi, tuple(figure.get_size_inches()), repr(figure.get_layout_engine())\n"
        "figure"
    )
    chart = drawn_chart(cells, code)
    (panel,) = chart.panels
    assert (panel.title, panel.x_label, panel.y_label) == ("Title", "time", "size")
    assert [entry.label for entry in panel.legend.entries] == ["growth"]
    assert "5" in panel.y[0].label
    figure_state = "(figure.dpi, tuple(figure.get_size_inches()), repr(figure.get_layout_engine()))"
    cells.expect(f"{figure_state} == before, axes.get_legend().get_visible()", "(True, True)\n")


def test_legend_of_a_chart_has_colours_that_can_be_seen(cells: Cells) -> None:
    code = (
        "plt.plot([0, 1], 'r', label='line')\n"
        "plt.plot([1, 0], 'k', label='black line')\n"
        "plt.bar([0], [1], fill=False, edgecolor='b', label='outline')\n"
        "plt.legend();"
    )
    chart = drawn_chart(cells, code)
    colours = {entry.label: entry.colour for entry in chart.panels[0].legend.entries}
    assert colours == {"line": "#ff0000", "black line": "#8c94a6", "outline": "#0000ff"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "code",
    [
        "Image.frombytes('RGB', (3_200, 2_000), os.urandom(3 * 3_200 * 2_000))",
        "Image.frombytes('RGBA', (3_200, 2_000), os.urandom(4 * 3_200 * 2_000))",
        "plt.figure(figsize=(16, 16)).figimage(np.random.rand(1_600, 1_600, 3));",
        "plt.figure(figsize=(5_000, 5_000));",
    ],
)
def test_oversized_picture_is_shown_smaller(cells: Cells, code: str) -> None:
    cells.run("import os\nfrom PIL import Image")
    (picture,) = show(cells, code)
    with Image.open(io.BytesIO(base64.b64decode(picture.data))) as image:
        assert 500 < max(image.size) <= 3_100


# Figures in words, for readers without the picture


def test_figure_is_described_with_its_axes_series_legend_and_overlaps(cells: Cells) -> None:
    (display,) = show(cells, FIGURE)
    title_line, *lines = display.text.rstrip("\n").split("\n")
    assert title_line == "<Figure size 1100x450 with 2 Axes>"
    assert lines[0] == 'Title: "Cars"'
    assert lines[1].startswith('Axes 1: title "Use of fuel"; x "year", 0.9 to 3.1; y without a')
    assert lines[1].endswith("log scale")
    assert lines[2:4] == [
        '  line "mpg": 3 points, x 1 to 3, y 5 to 9, 1 missing',
        '  legend: "mpg"',
    ]
    assert "ticks category number 0, category number 1" in lines[4]
    assert lines[5:] == [
        "  12 bars: 0 to 11",
        "  tick labels of the x axis overlap (11 of 11 pairs)",
    ]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("plt.scatter([1, 2], [3, 4], label='a');", '2 points "a": x 1 to 2, y 3 to 4'),
        ("plt.imshow(np.zeros((3, 4)));", "picture of 3 x 4"),
        ("plt.barh(['x', 'y'], [1, 5]);", "2 bars: 1 to 5"),
        ("plt.hist([1, 1, 2], bins=2);", "2 bars: 1 to 2"),
        ("plt.plot([]);", "line: 0 points, without a finite value"),
        ("plt.errorbar([1, 2], [3, 4], yerr=1);", "line: 2 points, x 1 to 2, y 3 to 4"),
        ("plt.stem([1, 2], [3, 4]);", "line: 2 points, x 1 to 2, y 3 to 4"),
        ("plt.pie([1, 2]);", "2 shapes (Wedge)"),
        ("plt.gca();", "nothing is drawn in it"),
        ("for n in range(15): plt.plot([n])\nplt.show()", "… and 3 more series"),
        (f"plt.plot({DATES}, [1, 2]);", "ticks 2024-01"),
        (f"plt.plot({DATES}, [1, 2]);", "line: 2 points, y 1 to 2\n"),
        (f"plt.plot([1, 2], {DATES});", "line: 2 points, x 1 to 2\n"),
        (f"plt.scatter({DATES}, [1, 2]);", "  2 points: y 1 to 2\n"),
        (f"plt.scatter([1, 2], {DATES});", "  2 points: x 1 to 2\n"),
        (f"plt.scatter({DATES}, ['a', 'b']);", "  2 points\n"),
    ],
)
def test_kinds_of_series_are_described(cells: Cells, code: str, words: str) -> None:
    (display,) = show(cells, code)
    assert words in display.text


@pytest.mark.thorough
def test_figure_whose_code_fails_has_only_its_name(cells: Cells) -> None:
    code = (
        "figure, axes = plt.subplots()\n"
        "axes.get_legend = lambda: 1 / 0\naxes.set_title('x' * 10_000)\nplt.show()"
    )
    (display,) = show(cells, code)
    assert display.mime == "image/png"
    assert display.text == "<Figure size 640x480 with 1 Axes>\n"


@pytest.mark.thorough
def test_figure_with_a_long_title_is_described_briefly(cells: Cells) -> None:
    (display,) = show(cells, "plt.title('x' * 10_000);")
    assert len(display.text) < 500


def test_figure_is_cut_as_matplotlib_cuts_it(cells: Cells) -> None:
    code = (
        "import io\n"
        "fig, axes = plt.subplots()\n"
        "axes.plot([1, 2], label='a line')\n"
        "axes.set_ylabel('two\\nlines')\n"
        "axes.legend(bbox_to_anchor=(1.05, 1))\n"
        "axes.annotate('far away', (0, 1), xytext=(-0.5, 2.2))\n"
        "file = io.BytesIO()\n"
        "fig.savefig(file, format='png', bbox_inches='tight')\n"
        "fig"
    )
    (display,) = show(cells, code)
    with Image.open(io.BytesIO(base64.b64decode(display.data))) as image:
        cells.expect(f"from PIL import Image\nImage.open(file).size == {image.size!r}", "True\n")
