"""Values that are more than text: what a cell shows of them, in which order, and what is left where
they fail."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mahtab_tui.kernel.cells import pictures, pieces
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.values import Display
from tests.integration.kernels import Cells, RecordingHost

PNG = b"\x89PNG\r\n\x1a\n"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);"


def show(cells: Cells, code: str) -> list[Display]:
    return list(cells.run(code).displays)


def test_show_sends_a_figure_between_earlier_and_later_output(cells: Cells) -> None:
    result = cells.run(PLOT + "\nprint('before')\nplt.show()\nprint('after')")
    assert [(kind, text.split(" ")[0].strip()) for kind, text in pieces(result)] == [
        ("stdout", "before"),
        ("display", "<Figure"),
        ("stdout", "after"),
    ]
    assert [data[:8] for data in pictures(result)] == [PNG]


def test_unshown_figure_appears_once_at_the_end_of_its_cell(
    cells: Cells,
) -> None:
    assert [display.mime for display in show(cells, PLOT)] == ["image/png"]
    assert show(cells, "1") == []
    assert len(show(cells, "figure, axes = plt.subplots()\nfigure")) == 1
    assert len(show(cells, "figure")) == 1


@pytest.mark.parametrize("backend", ["Agg", "svg"])
def test_figures_of_a_headless_backend_are_shown(cells: Cells, backend: str) -> None:
    start = f"import matplotlib\nmatplotlib.use('{backend}')\nimport matplotlib.pyplot as plt"
    assert cells.text(f"{start}\nplt.get_backend().lower()") == f"'{backend.lower()}'\n"
    result = cells.run("plt.plot([1])\nprint('before')\nplt.show()\nprint('after')\nplt.plot([2]);")
    assert [kind for kind, _ in pieces(result)] == ["stdout", "display", "stdout", "display"]
    assert [data[:8] for data in pictures(result)] == [PNG, PNG]
    assert cells.text("plt.get_fignums()") == "[]\n"


def test_frames_pillow_and_markdown_bring_their_own_format(cells: Cells) -> None:
    (frame,) = show(cells, "import pandas as pd\npd.DataFrame({'a': [1], 'b': ['[bold]']})")
    assert frame.mime == "text/html"
    assert "[bold]" in frame.data
    assert frame.text.split() == ["a", "b", "0", "1", "[bold]"]
    assert frame.data.endswith("<p>1 rows × 2 columns</p>")
    (frame,) = show(cells, "pd.DataFrame({'a': range(1_000)})")
    assert frame.data.count("1000 rows × 1 columns") == 1
    with_option = "with pd.option_context('display.show_dimensions', False): display(pd.DataFrame({'a': [1]}))"
    assert "rows" not in show(cells, with_option)[0].data
    (picture,) = show(cells, "from PIL import Image\nImage.new('RGB', (4_000, 3_000))")
    assert base64.b64decode(picture.data)[:8] == PNG
    (words,) = show(cells, "class Words:\n    def _repr_markdown_(self): return '# Title'\nWords()")
    assert (words.mime, words.data) == ("text/markdown", "# Title")
    assert show(cells, "Words();") == []
    assert [
        kind for kind, _ in pieces(cells.run("display(Words(), 3, Words())\nprint('end')"))
    ] == ["display", "stdout", "display", "stdout"]


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
    (picture,) = show(
        cells,
        f"import os\nfrom PIL import Image\nimport matplotlib.pyplot as plt, numpy as np\n{code}",
    )
    data = base64.b64decode(picture.data)
    with Image.open(io.BytesIO(data)) as image:
        assert 500 < max(image.size) <= 3_100


def test_rich_output_is_coloured_text(cells: Cells) -> None:
    output = cells.text(
        "from rich.table import Table\ntable = Table('head')\ntable.add_row('[red]cell')\ntable"
    )
    assert "head" in output
    assert "\x1b[" in output


@pytest.mark.parametrize(
    "body",
    [
        "def _repr_html_(self): raise ValueError",
        "def _repr_html_(self): return 5",
        "def _repr_html_(self): return '<b>no table</b>'",
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


def test_model_displaying_too_much_is_stopped(cells: Cells) -> None:
    code = "class Long:\n    def _repr_markdown_(self): return 'short'\n    def __repr__(self): return 'x' * 20_000\nLong()"
    result = cells.run(code, limit=10_000)
    assert result.status == "error"
    assert "more than 10,000 characters" in result.output


def test_forked_child_prints_displays_as_text(cells: Cells) -> None:
    code = "class Words:\n    def _repr_markdown_(self): return '# Title'\n    def __repr__(self): return 'words'\n"
    result = cells.run(
        code
        + "import os\nchild = os.fork()\nif child == 0:\n    display(Words())\n    os._exit(0)\nos.waitpid(child, 0);"
    )
    assert (result.output, result.displays) == ("words\n", ())


def test_a_forged_display_is_text(cells: Cells) -> None:
    host = "import sys\ncall = sys.modules['mahtab_worker.control'].Host.call\n"
    result = cells.run(
        host
        + "call('display', {'mime': 'text/x-forged', 'data': 5})\ncall('display', {'text': 'as it is\\n'})"
    )
    assert (result.status, result.displays) == ("ok", ())
    assert "as it is" in result.output


def test_display_from_a_thread_between_cells_is_background_text(cells: Cells) -> None:
    words = "class Words:\n    def _repr_markdown_(self): return 'm'\n    def __repr__(self): return 'late'\n"
    cells.run(
        words
        + "import threading\ngo = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), display(Words()))).start()"
    )
    if "late" not in cells.run("go.set()").output:
        cells.host.wait_for_late("late")


def test_callers_own_process_displays_too(project: Path) -> None:
    host = RecordingHost()
    kernel = InProcessKernel({})
    kernel.start(host)
    try:
        result = Cells(kernel, host).run(
            "print('a')\nclass Words:\n    def _repr_markdown_(self): return 'm'\ndisplay(Words())\nprint('b')"
        )
        assert [kind for kind, _ in pieces(result)] == ["stdout", "display", "stdout"]
    finally:
        kernel.close()


ANSWERS: dict[str, Any] = {
    "ask": "# Findings\n\n- one\n- two",
    "rlm": {
        "text": "The answer is **42**.",
        "partial": False,
        "why": "",
        "usage": [1, 10, 0.0, 0.1],
        "spans": [],
        "packed": None,
    },
    "usage": "a  b\n1  2",
}


def test_tool_results_read_as_text_and_are_plain_str(cells: Cells) -> None:
    cells.host.answer = lambda name, args: ANSWERS[name]
    result = cells.run("answer = ask('what?')\nanswer")
    (shown,) = result.displays
    assert (shown.mime, shown.data) == ("text/markdown", ANSWERS["ask"])
    assert result.output == ANSWERS["ask"] + "\n"
    assert [display.data for display in show(cells, "rlm('what?', 'some text')")] == [
        "The answer is **42**."
    ]
    assert [display.data for display in show(cells, "display(answer)")] == [ANSWERS["ask"]]
    assert cells.text("type(answer) is str") == "True\n"
    assert cells.text("[answer]") == f"{[ANSWERS['ask']]!r}\n"
    assert cells.text("answer + '!'") == f"{ANSWERS['ask'] + '!'!r}\n"


def test_tool_results_are_displayed_verbatim(cells: Cells, project: Path) -> None:
    cells.host.answer = lambda name, args: ANSWERS[name]
    (project / "a.txt").write_text("one\ntwo\n")
    assert cells.text("read('a.txt')") == "     1  one\n     2  two\n"
    assert cells.text("grep('one\\ntwo', 't')") == "2: two\n"
    assert cells.text("peek('one\\ntwo', 5)") == "[characters 0 to 5 of 7]\none\nt\n"
    assert cells.text("usage()") == ANSWERS["usage"] + "\n"
    assert cells.text("'one\\ntwo'") == "'one\\ntwo'\n"


def test_one_character_result_is_not_confused_with_other_text(cells: Cells) -> None:
    cells.host.answer = lambda name, args: "7"
    assert cells.text("ask('how many?')") == "7\n"
    assert cells.text("'7'") == "'7'\n"


def test_only_the_latest_tool_texts_are_remembered(cells: Cells) -> None:
    cells.run(
        "long = 'x\\n' * 4_000_000\nfirst = peek(long, 7_000_000)\nlast = peek(long, 7_000_001)"
    )
    assert "characters 0 to 7,000,001" in cells.text("last")[:60]
    assert cells.text("first").startswith("'[characters")
    assert cells.text("a = peek('a\\nb')\nfor n in range(100): peek('c\\nd')\na").startswith("'[")


def test_help_is_shown_from_its_start(cells: Cells) -> None:
    (shown,) = show(cells, "len?")
    assert (shown.mime, shown.data) == ("text/plain", "")
    assert shown.text.startswith("len(obj, /)\n\nReturn the number")
    (shown,) = show(cells, "help(len)")
    assert shown.text.startswith("Help on built-in function len in module builtins:\n\nlen(")
    assert "\b" not in shown.text
    (shown,) = show(cells, "help('for')")
    assert "for" in shown.text


def test_help_goes_where_the_user_redirected_it(cells: Cells) -> None:
    result = cells.run(
        "import contextlib, io\nfile = io.StringIO()\nwith contextlib.redirect_stdout(file):\n    help(len)\n'Help on' in file.getvalue()"
    )
    assert result.displays == ()
    assert result.output == "True\n"


def test_callers_own_help_and_pydoc_are_unchanged(project: Path) -> None:
    import builtins
    import pydoc

    before = builtins.help, pydoc.pager
    host = RecordingHost()
    kernel = InProcessKernel({})
    kernel.start(host)
    try:
        (shown,) = Cells(kernel, host).run("help(len)").displays
        assert shown.text.startswith("Help on built-in function len")
    finally:
        kernel.close()
    assert (builtins.help, pydoc.pager) == before
