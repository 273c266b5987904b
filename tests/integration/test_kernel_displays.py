"""Values that are more than text, and how tools' results are shown."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.cell_results import pictures, pieces
from tests.integration.kernels import Cells, show

PNG = b"\x89PNG\r\n\x1a\n"
WORDS = "class Words:\n    def _repr_markdown_(self): return '# Title'\n    def __repr__(self): return 'words' * {}\n"

RLM = {"text": "The answer is **42**.", "partial": False, "why": "", "usage": [1, 10, 0.0, 0.1]}
ANSWERS: dict[str, Any] = {
    "ask": "# Findings\n\n- one\n- two",
    "rlm": {**RLM, "spans": [], "packed": ""},
    "usage": "a  b\n1  2",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["", "Agg", "svg"])
def test_figures_are_shown_in_order(cells: Cells, backend: str) -> None:
    start = "import matplotlib.pyplot as plt"
    if backend:
        start = f"import matplotlib\nmatplotlib.use('{backend}')\n{start}"
    assert backend.lower() in cells.text(f"{start}\nplt.get_backend().lower()")
    result = cells.run("plt.plot([1])\nprint('before')\nplt.show()\nprint('after')\nplt.plot([2]);")
    assert [kind for kind, _ in pieces(result)] == ["stdout", "display", "stdout", "display"]
    assert [base64.b64decode(data)[:8] for data in pictures(result)] == [PNG, PNG]
    cells.expect("plt.get_fignums()", "[]\n")


def test_rich_values_have_their_format(cells: Cells) -> None:
    (frame,) = show(cells, "import pandas as pd\npd.DataFrame({'a': [1], 'b': ['[bold]']})")
    assert frame.mime == "text/html"
    assert "[bold]" in frame.data
    assert frame.text.split() == ["a", "b", "0", "1", "[bold]"]
    assert frame.data.endswith("<p>1 rows × 2 columns</p>\n</div>")
    (frame,) = show(cells, "pd.DataFrame({'a': range(1_000)})")
    assert frame.data.count("1000 rows × 1 columns") == 1
    option = "pd.option_context('display.show_dimensions', False)"
    (frame,) = show(cells, f"with {option}: display(pd.DataFrame({{'a': [1]}}))")
    assert "rows" not in frame.data
    (picture,) = show(cells, "from PIL import Image\nImage.new('RGB', (4_000, 3_000))")
    assert base64.b64decode(picture.data)[:8] == PNG
    (words,) = show(cells, WORDS.format(1) + "Words()")
    assert (words.mime, words.data) == ("text/markdown", "# Title")
    assert show(cells, "Words();") == []
    result = cells.run("display(Words(), 3, Words())\nprint('end')")
    assert [kind for kind, _ in pieces(result)] == ["display", "stdout", "display", "stdout"]


def test_styled_table_of_any_length_is_a_table(cells: Cells) -> None:
    (styled,) = show(
        cells,
        "import pandas as pd\nframe = pd.DataFrame({'name': ['a'] * 5_000, 'price': 1.5})\n"
        "frame.style.format(precision=2).highlight_max()",
    )
    assert styled.mime == "text/html"
    assert styled.data.count(">1.50<") == 60
    lines = styled.text.split("\n")
    assert lines[0].endswith("  name  price")
    assert lines[60].endswith("59     a   1.50")


def test_html_that_is_displayed_is_exported_and_shown_by_its_words(cells: Cells) -> None:
    html = (
        "<style>p {}</style><h1>A &amp; B</h1><p>Some <b>bold</b>\nwords.</p><script>x()</script>"
    )
    cells.run("from IPython.display import HTML")
    (display,) = show(cells, f"HTML({html!r})")
    assert (display.mime, display.data) == ("text/html", html)
    assert display.text == "A & B\nSome bold words.\n"
    (display,) = show(cells, "HTML('<p>' + 'prose ' * 90 + '</p><table><tr><td>1</table>')")
    assert display.mime == "text/html"
    assert display.text.endswith("prose\n1\n")


def test_rich_output_is_coloured_text(cells: Cells) -> None:
    output = cells.text(
        "from rich.table import Table\ntable = Table('head')\ntable.add_row('[red]cell')\ntable"
    )
    assert "head" in output
    assert "\x1b[" in output


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "body",
    [
        "def _repr_html_(self): raise ValueError",
        "def _repr_html_(self): return 5",
        "def _repr_html_(self): return '<b>no table</b>'",
        "def _repr_html_(self): return '<table><tr><td>1</table><script>draw()</script>'",
        "def _repr_html_(self): return '<div><svg></svg><table><tr><td>1</table></div>'",
        "def _repr_html_(self): return '<table><tr><td><table><tr><td>1</table></table>'",
        "def _repr_html_(self): return '<strong>Structure</strong><table><tr><td>1</table>'",
        "def _repr_html_(self): return '<p>' + 'prose ' * 90 + '</p><table><tr><td>1</table>'",
        "def _repr_html_(self): return '<input type=checkbox><table><tr><td>1</table>'",
        "def _repr_html_(self): return '<table>' + 'x' * 400_000",
        "def _repr_png_(self): return 'not base64!'",
        "def _repr_png_(self): return b'x' * 6_000_000",
        "def _repr_markdown_(self): return None",
        "def _repr_mimebundle_(self, include, exclude): return {'text/plain': 'x'}",
        "def _repr_mimebundle_(self): return {}",
        "def __rich__(self): raise ValueError",
        "def __getattr__(self, name): return lambda *given, **named: '<table><tr><td>1</table>'",
    ],
)
def test_failing_rich_format_leaves_the_plain_one(cells: Cells, body: str) -> None:
    result = cells.run(
        f"import rich\nclass Odd:\n    {body}\n    def __repr__(self): return 'odd'\nOdd()"
    )
    assert (result.status, result.output, result.displays) == ("ok", "odd\n", ())


@pytest.mark.parametrize(
    "body",
    [
        "def _repr_png_(self): raise ValueError",
        "def _repr_png_(self): return 'not base64!'",
        "def _repr_mimebundle_(self, **options): return {'image/png': '!', 'text/html': TABLE}",
    ],
)
def test_failing_picture_leaves_the_table(cells: Cells, body: str) -> None:
    table = "<table><tr><td>1</table>"
    html_method = "def _repr_html_(self): return TABLE"
    if "mimebundle" in body:
        html_method = ""
    (odd,) = show(cells, f"TABLE = {table!r}\nclass Odd:\n    {body}\n    {html_method}\nOdd()")
    assert (odd.mime, odd.data) == ("text/html", table)


def test_picture_in_lines_of_base64_is_shown(cells: Cells) -> None:
    method = "def _repr_mimebundle_(self, **options): return {'image/png': base64.encodebytes(DATA).decode()}"
    code = f"import base64\nDATA = {PNG!r} + bytes(200)\nclass Picture:\n    {method}\nPicture()"
    (picture,) = show(cells, code)
    assert base64.b64decode(picture.data) == PNG + bytes(200)


def test_forked_child_prints_displays_as_text(cells: Cells) -> None:
    code = "import os\nif os.fork(): os.wait()\nelse: display(Words()), os._exit(0)"
    result = cells.run(WORDS.format(1) + code)
    assert (result.output, result.displays) == ("words\n", ())


def test_a_forged_display_is_text(cells: Cells) -> None:
    cells.run("import sys\ncall = sys.modules['mahtab_worker.link.host'].Host.call")
    result = cells.run(
        "call('display', {'mime': 'text/x-forged', 'data': 5})\ncall('display', {'text': 'as it is\\n'})"
    )
    assert (result.status, result.displays) == ("ok", ())
    assert "as it is" in result.output


def test_display_between_cells_is_background_text(cells: Cells) -> None:
    code = "import threading\ngo = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), display(Words()))).start()"
    cells.run(WORDS.format(1) + code)
    if "words" not in cells.run("go.set()").output:
        cells.host.wait_for_late("words")


def test_tool_results_are_plain_str(cells: Cells) -> None:
    cells.host.answer = lambda name, args: ANSWERS[name]
    answer = ANSWERS["ask"]
    result = cells.run("answer = ask('what?')\nanswer")
    (markdown_display,) = result.displays
    assert (markdown_display.mime, markdown_display.data, result.output) == (
        "text/markdown",
        answer,
        f"{answer}\n",
    )
    for code, data in (("rlm('what?', 'some text')", RLM["text"]), ("display(answer)", answer)):
        assert [display.data for display in show(cells, code)] == [data]
    cells.expect("type(answer) is str", "True\n")
    cells.expect("[answer]", f"{[answer]!r}\n")
    cells.expect("answer + '!'", f"{answer + '!'!r}\n")


def test_tool_results_are_displayed_verbatim(cells: Cells, project: Path) -> None:
    cells.host.answer = lambda name, args: ANSWERS[name]
    (project / "a.txt").write_text("one\ntwo\n")
    cells.expect("read('a.txt')", "     1  one\n     2  two\n")
    cells.expect("grep('one\\ntwo', 't')", "2: two\n")
    cells.expect("peek('one\\ntwo', 5)", "[characters 0 to 5 of 7]\none\nt\n")
    cells.expect("usage()", ANSWERS["usage"] + "\n")
    cells.expect("'one\\ntwo'", "'one\\ntwo'\n")
    cells.host.answer = lambda name, args: "7"
    cells.expect("ask('how many?')", "7\n")
    cells.expect("'7'", "'7'\n")


def test_help_is_shown_from_its_start(cells: Cells) -> None:
    for code, start in (
        ("len?", "len(obj, /)\n\nReturn the number of items"),
        ("help(len)", "Help on built-in function len in module builtins:\n\nlen("),
    ):
        (display,) = show(cells, code)
        assert (display.mime, display.data) == ("text/plain", "")
        assert display.text.startswith(start)
        assert "\b" not in display.text
    code = "import contextlib, io\nfile = io.StringIO()\nwith contextlib.redirect_stdout(file): help(len)\n'Help on' in file.getvalue()"
    result = cells.run(code)
    assert (result.displays, result.output) == ((), "True\n")
