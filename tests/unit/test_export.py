"""A session as a notebook, a script, Markdown and a page."""

from __future__ import annotations

import ast
import json
import re
import resource
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell, Question
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.values import Change
from mahtab_tui.export.entries import ExportedConversation
from mahtab_tui.export.line_merge import find_replacements, preserve_lines
from mahtab_tui.export.markdown import make_inert
from mahtab_tui.export.merging import merge_content
from mahtab_tui.export.notebook import parse_error
from mahtab_tui.export.reading import read_notebook
from mahtab_tui.export.rendering import ENDINGS, render
from mahtab_tui.export.selection import ExportedEntries, NothingToExport, select
from mahtab_tui.export.writing import write
from mahtab_tui.store.resume import MAX_PAST_RECORDS, find_session, new_store, resumed_store
from mahtab_tui.worker.cells.tracebacks import format_safely
from mahtab_tui.worker.magic.notes import note_magic_without_effect, note_widgets
from tests.notebooks import PIXEL

TRACEBACK = "Traceback (most recent call last):\nZeroDivisionError: division by zero\nHint: x\n"

HOSTILE = [
    "<script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>", "![x](https://tracker.example/p.png)", "[x](javascript:alert(1))",
    "[y](data:text/html,<script>alert(1)</script>)", "<iframe src='https://e.example'></iframe>", "</style></title><svg onload=alert(1)>",
    "\x1b]0;title\x07\x1b[31mred", "`</code><script>`", "[z]: https://e.example/x\n![z]", "<https://tracker.example>", "\ud800", "[x](ssh://host/x)", "[x](//tracker.example/x)",
]  # fmt: skip
TAGS = set(
    "html head meta title style body main details summary h1 h2 h3 h4 h5 h6 div p b pre span img table thead tbody tr th td a ul ol li em strong code"
    " blockquote hr br".split()
)

TOOL: dict[str, Any] = {"call": "1.0.0", "name": "read", "arguments": '{"path": "a.txt"}'}

TRUSTING = MarkdownIt("commonmark", {"html": True})
CAREFUL = MarkdownIt("commonmark", {"html": False})
UNCHANGED = [
    "a < b, *x* and `List<int>` <https://a.b/c>",
    "```html\n<b>\n```\n    x\n\n    <b>",
    "``a`<b>``",
    "vec![1]",
    "[x](https://a) [y](b.md)\n\n[z]: javascript:z",
]
PIECES = ["<b>", "<!--", "<script", "</div>", "`", "``", "```", "~~~", "\n", "\n\n", "    ", "> ", "- ", "\\", "![", "[", "](", "](javascript:x)", ")", ">", "x", "\r", "[z]: y:x", "&lt;", "# ", "\t", "<https://a.b>", "***", "1. ", "'"]  # fmt: skip

OPENED = records.NotebookOpened(
    "opened", file="/a.ipynb", digest="d", first=1, cells=1, rewritable=True, time=1.0
)
LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "#%%\n", "# %%\n", "\n", "c\n"]), min_size=1, max_size=12
).map("".join)


def cell(
    number: int,
    code: str,
    *outputs: tuple[str, str],
    status: str = "ok",
    display: tuple[str, str] | None = None,
    **by: Any,
) -> list[Record]:
    """The records of a cell. outputs: kinds and texts. display: MIME type and data of the displayed
    value whose text is the first output."""
    begin, end = (
        (records.AssistantReplIn, records.AssistantReplOut)
        if by
        else (records.UserReplIn, records.UserReplOut)
    )
    text = "".join(text for _, text in outputs)
    kinds = tuple((kind, len(text)) for kind, text in outputs)
    author: Any = {"party": "you", **by, "cell": number}
    cell_records: list[Record] = [begin(code, **author)]
    if display is not None:
        mime, data = display
        cell_records.append(records.DisplayRecord(outputs[0][1], cell=number, mime=mime, data=data))
    return [*cell_records, end(text, status=status, duration=0.5, kinds=kinds, **author)]


def answer(text: str, step: int = 0, party: str = "demo", **fields: Any) -> Record:
    return records.AssistantChat(text, turn=1, step=step, party=party, **fields)


SESSION_RECORDS: list[Record] = [
    *cell(1, "import math"),
    *cell(2, "x = 4\nprint('a')\nx", ("stdout", "a\n"), ("value", "4\n")),
    records.UserChat("What is **x**?", turn=1),
    records.UserAttachment("…", turn=1, label="@notes.txt"),
    answer("I look.\n\n```python\nprint(x)\n```\n\nAnd this:\n\n```python\nx + 1\n```"),
    *cell(3, "print(x)", ("stdout", "4\n"), party="demo", turn=1, step=0, block=0),
    answer("It is 4.", 1),
    *cell(4, "1/0", ("traceback", TRACEBACK), status="error"),
    *cell(5, "plot()", ("display", "<picture>\n"), display=("image/png", PIXEL)),
]


def chosen(session_records: list[Record] = SESSION_RECORDS) -> ExportedEntries:
    return select(ExportedConversation(session_records))


def notebook_of(selected: ExportedEntries) -> Any:
    return nbformat.reads(render(selected, ".ipynb"), as_version=4)


def test_code_of_an_answer_stands_between_its_words() -> None:
    exported_entries = [
        entry.number or entry.code if isinstance(entry, Cell) else entry.plain_text
        for entry in ExportedConversation(SESSION_RECORDS).entries
    ]
    assert exported_entries == [
        1, 2, "What is **x**?", "I look.", 3, "And this:", "x + 1", "It is 4.", 4, 5,
    ]  # fmt: skip


def test_thoughts_and_empty_answers_are_not_exported() -> None:
    session_records: list[Record] = [
        records.UserChat("q", turn=1),
        answer("<think>\nsecretly\n</think>\nSo."),
        answer("", 1, stopped=True),
    ]
    assert [entry.plain_text for entry in ExportedConversation(session_records).entries] == [
        "q",
        "So.",
    ]


def test_late_output_is_exported_with_its_cell() -> None:
    late = records.UserReplOut("from a thread\n", late=True)
    session_records = [*cell(1, "start()", ("stdout", "started\n")), late, *cell(2, "x")]
    notebook = notebook_of(chosen(session_records))
    assert [output.text for output in notebook.cells[0].outputs] == ["started\n", "from a thread\n"]


def test_stale_cells_and_answers_are_marked() -> None:
    def changed(number: int, name: str) -> Record:
        return records.Namespace(cell=number, changes=(Change(name, "rebound", None),))

    session_records = [
        *cell(1, "x = 4"),
        changed(1, "x"),
        records.UserChat("What is x?", turn=1),
        *cell(2, "x", ("value", "4\n"), party="demo", turn=1, step=0, block=0),
        answer("It is 4.", 1),
        *cell(3, "x = 5"),
        changed(3, "x"),
    ]
    mark = "stale: uses `x` from In 1, changed by In 3\n"
    _, _, stale_cell, stale_answer, _ = notebook_of(chosen(session_records)).cells
    assert [output.get("text") for output in stale_cell.outputs] == [None, mark]
    assert stale_answer.source.endswith("It is 4.\n\n*rests on In 2 (stale)*")
    for ending in (".md", ".html"):
        page = render(chosen(session_records), ending)
        assert "changed by In 3" in page
        assert "rests on In 2 (stale)" in page
    again = [*session_records, *cell(4, "x", ("value", "5\n"))]
    assert (
        notebook_of(chosen(again)).cells[2].outputs[1].text == f"{mark[:-1]}; run again as In 4\n"
    )


def test_notebook_has_output_bundles() -> None:
    notebook = notebook_of(chosen())
    nbformat.validate(notebook)
    by_id = {cell.id: cell for cell in notebook.cells}
    stream, result = by_id["cell-2"].outputs
    assert (stream.output_type, result.output_type) == ("stream", "execute_result")
    assert result.data == {"text/plain": "4"}
    [error] = by_id["cell-4"].outputs
    assert (error.ename, error.evalue) == ("ZeroDivisionError", "division by zero")
    assert by_id["cell-5"].outputs[0].data["image/png"].strip() == PIXEL
    assert by_id["cell-3"].metadata.mahtab == {"by": "model", "name": "demo"}
    assert by_id["question-1"].source == "**Question (with @notes.txt)**\n\nWhat is **x**?"


def chained_error() -> Exception:
    error = KeyError("b")
    error.__cause__ = ValueError("a")
    return error


class _Unsaid(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (ValueError("bad config:\nname: x\nport"), "ValueError", "bad config:"),
        (RuntimeError(f"it failed\n{TRACEBACK}"), "RuntimeError", "it failed"),
        (chained_error(), "KeyError", "'b'"),
        (_Unsaid(), f"{__name__}._Unsaid", ""),
        (type("Own", (Exception,), {"__module__": "__main__"})("x: y"), "Own", "x: y"),
    ],
)
def test_an_error_has_its_name_and_the_start_of_its_message(
    error: Exception, name: str, message: str
) -> None:
    def fail() -> None:
        raise error

    try:
        fail()
    except Exception as raised:
        traceback = format_safely(raised)
    assert parse_error(f"{traceback}Hint: x\n") == (name, message)


def test_an_exception_group_is_named_not_its_errors() -> None:
    try:
        raise ExceptionGroup("several", [ValueError("a"), chained_error()])
    except Exception as raised:
        traceback = format_safely(raised)
    assert parse_error(traceback) == ("ExceptionGroup", "several (2 sub-exceptions)")


def test_an_error_of_jupyter_has_its_name_and_message() -> None:
    traceback = (
        "-----\nKeyError      Traceback (most recent call last)\nCell In[1], line 1\n"
        "----> 1 {}['x']\n\nKeyError: 'x'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "ValueError    Traceback (most recent call last)\nFile ~/a.py:3, in f(x)\n"
        "      2     pass\n----> 3     raise ValueError(x)\n\nValueError: bad:\nage: 1\n"
    )
    assert parse_error(traceback) == ("ValueError", "bad:")


def test_cell_ids_of_a_notebook_differ() -> None:
    entries = chosen().entries
    keys = ["cell-1", "cell-1", "cell-1-2", "cell 1"]
    for entry, key in zip(entries, keys, strict=False):
        entry.key = key
    selected = chosen()._replace(entries=entries[:4])
    ids = [cell.id for cell in notebook_of(selected).cells]
    assert ids == ["cell-1", "cell-1-2", "cell-1-2-2", "cell-1-3"]


def test_a_script_is_python_that_jupytext_reads() -> None:
    script = render(chosen(), ".py")
    ast.parse(script)
    cells = jupytext.reads(script, fmt="py:percent").cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    assert sources == ["import math", "x = 4\nprint('a')\nx", "print(x)", "1/0", "plot()"]


def test_chat_text_never_becomes_code_of_a_script() -> None:
    text = "a\rimport b\x0bimport c\x0cimport d\u2028import e\n# %%\nimport f\n\x00\x1b[31m%%bash"
    session_records = [records.UserChat(text, turn=1), answer(text, party=text), *cell(1, "x = 1")]
    assert [
        ast.unparse(line) for line in ast.parse(render(chosen(session_records), ".py")).body
    ] == ["x = 1"]


def test_markdown_has_the_outputs_and_no_fence_ends_early() -> None:
    session_records = cell(1, "print('```')", ("stdout", "```\nstill output\n"))
    assert "````text\n```\nstill output\n````" in render(chosen(session_records), ".md")
    assert "ZeroDivisionError: division by zero" in render(chosen(), ".md")


@pytest.mark.parametrize("ending", ENDINGS)
def test_hidden_undone_and_private_entries(ending: str) -> None:
    session_records: list[Record] = [
        *cell(1, "shown = 'shown-1'"),
        *cell(2, "hidden = 'hidden-2'"),
        *cell(3, "undone = 'undone-3'"),
        *cell(4, "print(secret, 'private-4')", ("stdout", "private-4\n")),
        records.Hide(entry="cell 2", hidden=True),
        records.Undo("", cells=(3,), undone=True),
        records.Private(name="secret", private=True, cells=(4,)),
    ]
    rendered = render(chosen(session_records), ending)
    assert "shown-1" in rendered
    assert not re.search("hidden-2|undone-3|private-4", rendered)
    assert "private variable" in rendered


@pytest.mark.parametrize(
    "mark",
    [
        records.Private(name="pin", private=True, cells=(1,)),
        records.Hide(entry="cell 1", hidden=True),
        records.Undo("", cells=(1,), undone=True),
    ],
)
def test_title_comes_from_what_is_exported(mark: Record) -> None:
    session_records = [*cell(1, "pin = 12345678"), *cell(2, "x = 1"), mark]
    assert chosen(session_records).title == "x = 1"
    assert "12345678" not in render(chosen(session_records), ".html")


def test_private_cells_are_not_counted_as_exported() -> None:
    session_records = [*SESSION_RECORDS, records.Private(name="x", private=True, cells=(2, 3))]
    sentence = chosen(session_records).sentence("it.md")
    assert sentence == "Exported 3 cells to it.md. Left out: 2 that use a private variable."


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.bad.append(tag)
        for name, value in attrs:
            attribute = f"{tag} {name}={value}"
            is_allowed = re.match(
                "a href=(http://|https://|mailto:)|img src=data:image/|td ", attribute
            )
            loads = name in ("src", "href", "srcset", "action", "style") and not is_allowed
            if loads or name.startswith("on"):
                self.bad.append(attribute)


@pytest.mark.sample(5)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_loads_and_runs_nothing(text: str) -> None:
    table = f"<table><tr><th>{text}</th><td onclick='x()'>{text}</td></tr></table>{text}"
    session_records: list[Record] = [
        records.UserChat(text, turn=1),
        answer(text, party=text),
        *cell(1, text, ("stdout", text), ("value", text), ("traceback", text)),
        *cell(2, "t", ("display", "t\n"), display=("text/html", table)),
        *cell(3, "m", ("display", "m\n"), display=("text/markdown", text)),
        *cell(4, "p", ("display", "p\n"), display=("image/png", f'"><script>{text}')),
    ]
    page = render(chosen(session_records), ".html")
    reader = Page()
    reader.feed(page)
    assert reader.bad == []
    assert "\x1b" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("ending", ENDINGS)
def test_anything_can_be_written(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"it{ending}"
    text = "\n".join(HOSTILE)
    write(chosen([records.UserChat(text, turn=1), *cell(1, text, ("stdout", text))]), file)
    assert file.read_text("utf-8")
    if ending == ".ipynb":
        nbformat.validate(json.loads(file.read_text("utf-8")))


@pytest.mark.parametrize("link", ["", "target.md", "gone.md"])
def test_existing_file_or_link_is_overwritten_only_if_allowed(link: str, tmp_path: Path) -> None:
    target = tmp_path / "target.md"
    file = tmp_path / ("it.md" if link else "target.md")
    target.write_text("mine")
    target.chmod(0o640)
    if link:
        file.symlink_to(link)
    files_before = sorted(tmp_path.iterdir())
    with pytest.raises(FileExistsError):
        write(chosen(), file)
    assert target.read_text() == "mine"
    write(chosen(), file, overwrite=True)
    assert "What is **x**?" in file.read_text()
    assert target.stat().st_mode & 0o777 == 0o640
    assert file.is_symlink() == bool(link)
    assert sorted(tmp_path.iterdir()) == sorted({*files_before, file.resolve()})


def test_only_one_of_several_writers_creates_a_file(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def export(file: Path) -> bool:
        start.wait()
        try:
            write(chosen(), file)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as executor:
        for number in range(10):
            created = executor.map(export, [tmp_path / f"{number}.ipynb"] * 8)
            assert sum(created) == 1


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    text = "x" * 100_000
    selected = chosen([records.UserChat(text, turn=1)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(selected, tmp_path / "a.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_private_run_leaves_its_cell_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("df")])))
    file = read_notebook(path)
    private_run = next(entry for entry in chosen().entries if isinstance(entry, Cell))
    selected = chosen()._replace(is_private=lambda entry: entry is private_run)
    assert merge_content(file, {0: private_run}, [], selected, str) == file.content


@pytest.mark.parametrize("session_records", [[], [records.Notice("Full.", level="warning")]])
def test_session_without_words_or_code_gives_one_sentence(session_records: list[Record]) -> None:
    with pytest.raises(NothingToExport, match=r"Nothing has been said or run yet\."):
        select(ExportedConversation(session_records))


def test_unanswered_question_is_exported() -> None:
    session_records: list[Record] = [
        records.UserChat("q", turn=1),
        records.UserReplIn("x", cell=1, party="you"),
    ]
    assert [type(entry) for entry in ExportedConversation(session_records).entries] == [
        Question,
        Cell,
    ]
    assert all(render(chosen(session_records), ending) for ending in ENDINGS)


TOOLS: list[Record] = [
    *cell(1, "x"),
    records.UserChat("And then?", turn=1),
    records.AssistantTool(**TOOL, state="running"),
    records.AssistantTool("line 1", **TOOL, state="ok"),
    records.AssistantTool("No.", call="1.0.1", name="edit", arguments="{}", state="refused"),
    records.Notice("The namespace was *kept*."),
    records.Notice("The disk is <full>.", level="warning"),
    records.KernelRecord("The kernel died: it exited with code 3.", state="dead"),
]


def test_tool_calls_appear_in_order_and_notices_only_in_texts() -> None:
    _, question, read, edit = (cell.source for cell in notebook_of(chosen(TOOLS)).cells)
    assert question.endswith("And then?")
    summary = "<summary>read {&quot;path&quot;: &quot;a.txt&quot;}</summary>"
    assert f"{summary}\n\n```text\nline 1" in read
    assert "<summary>edit {} · refused</summary>" in edit
    assert render(chosen(TOOLS), ".html").count("<details>") == 2
    text = render(chosen(TOOLS), ".md")
    assert r"*The disk is &lt;full\>.*" in text
    assert "*The kernel died: it exited with code 3.*" in text
    script = render(chosen(TOOLS), ".py")
    assert all(word not in script for word in ("details", "line 1", "disk"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_notes_of_the_program_in_an_output_are_not_exported(
    ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    note_widgets()
    note_magic_without_effect("%config X.y = 1", "these settings have no use")
    print("\x1b[2mfaint words of the cell\x1b[22m")
    printed = capsys.readouterr().out
    assert "does nothing here" in printed
    exported = render(chosen(cell(1, "show()", ("stdout", printed))), ending)
    assert "ipywidgets" not in exported
    assert "does nothing here" not in exported
    if ending != ".py":
        assert "faint words of the cell" in exported


def test_secrets_are_covered_in_annotations_and_names_of_attachments() -> None:
    conversation = ExportedConversation([*SESSION_RECORDS, *TOOLS])
    secret = re.compile("line 1|full|notes")
    conversation.mask_texts(lambda text: secret.sub("•••", text))
    text = render(select(conversation), ".md")
    assert text.count("•••") >= 3
    assert not secret.search(text)


def test_page_shows_a_table_or_a_sentence_without_nbconvert(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    html = "<style scoped>.x {y: z}</style><table><thead><tr><th>city</th></tr></thead><tbody><tr><td>Bonn</td></tr></tbody></table>"
    selected = chosen(cell(1, "df", ("display", "t\n"), display=("text/html", html)))
    page = render(selected, ".html")
    assert "<tbody><tr><td>Bonn</td></tr></tbody></table>" in page
    assert "y: z" not in page
    monkeypatch.setitem(sys.modules, "nbconvert", None)
    message = r"A web page needs nbconvert: install mahtab-tui\[html\]\."
    with pytest.raises(NothingToExport, match=message):
        render(selected, ".html")


# Markdown from outside, made harmless for programs that draw tags and load pictures.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("List<int> x", "```text\nList<int> x\n```"),
        ("```\nit does <not> end", "````text\n```\nit does <not> end\n````"),
        ("[x](javascript:y)", "```text\n[x](javascript:y)\n```"),
        *((text, text) for text in UNCHANGED),
        ("![x](javascript:y)", "```text\n![x](javascript:y)\n```"),
        ("> " * 30 + "<b>", f"```text\n{'> ' * 30}<b>\n```"),
        pytest.param("<b>\n" * 100_000, "```text\n" + "<b>\n" * 100_000 + "```", id="long"),
    ],
)
def test_only_tags_and_pictures_become_a_code_block(text: str, expected: str) -> None:
    assert make_inert(text) == expected


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_trusting_and_untrusting_renderers_draw_the_same(text: str) -> None:
    drawn = TRUSTING.render(make_inert(text))
    assert drawn == CAREFUL.render(make_inert(text))
    assert "<img" not in drawn


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_following_text_is_not_part_of_the_quote(text: str) -> None:
    assert "<p>after\x02 all</p>" in TRUSTING.render(f"{make_inert(text)}\n\nafter\x02 all")


@pytest.mark.parametrize("text", HOSTILE)
def test_exported_words_are_inert_in_markdown_and_notebooks(text: str) -> None:
    session_records: list[Record] = [
        records.UserChat(text, turn=1),
        records.UserAttachment("", turn=1, label=text),
        answer(text, party=text),
        *cell(1, text, ("stdout", text), ("value", text), ("traceback", text)),
        *cell(2, "m", ("display", "m\n"), display=("text/markdown", text), party=text),
    ]
    words = [
        notebook_cell.source
        for notebook_cell in notebook_of(chosen(session_records)).cells
        if notebook_cell.cell_type == "markdown"
    ]
    for markdown in (render(chosen(session_records), ".md"), *words):
        reader = Page()
        reader.feed(TRUSTING.render(markdown))
        assert reader.bad == []


# Notebook of a stored session.


def test_resumed_session_knows_its_notebook_however_old(home: Path, project: Path) -> None:
    store, _, _ = new_store(project)
    written = [records.NotebookWritten(digest=digest, time=2.0) for digest in "ef"]
    for record in (
        OPENED,
        records.NotebookCell("x", position=1, kind="code", time=1.0),
        records.NotebookOutput("1\n", position=1, time=1.0),
        *written,
        *(records.UserReplIn("x", cell=number, time=4.0) for number in range(MAX_PAST_RECORDS)),
    ):
        store.append(record)
    store.close()
    if store.claim is not None:
        store.claim.release()
    past = resumed_store(find_session(None, project)).past
    kinds = records.NotebookOpened | records.NotebookWritten
    assert [record for record in past if isinstance(record, kinds)] == [OPENED, written[1]]


@given(LINES, LINES, LINES)
def test_unchanged_source_keeps_its_spelling(original: str, read: str, edited: str) -> None:
    assert preserve_lines(original, read, read) == original
    assert preserve_lines(read, read, edited) == edited
    assert preserve_lines(original, read, f"{read}new\n") == f"{original}new\n"
    if unterminated := original.rstrip("\n"):
        assert preserve_lines(unterminated, read, read) == unterminated
        assert preserve_lines(unterminated, read, f"{read}new\n") == f"{unterminated}\nnew"


@given(LINES, LINES)
def test_replacements_turn_one_text_into_the_other(old: str, new: str) -> None:
    old_lines = old.splitlines()
    rebuilt: list[str] = []
    position = 0
    for replacement in find_replacements(old_lines, new.splitlines()):
        rebuilt += old_lines[position : replacement.start] + replacement.lines
        position = replacement.end
    assert rebuilt + old_lines[position:] == new.splitlines()


def test_only_what_differs_is_replaced() -> None:
    old = ["a", "", "moved", "b", "", "c", "", "d", ""]
    new = ["", "a", "", "b", "", "C", "", "d", "moved", ""]
    assert find_replacements(old, new) == [
        (0, 0, [""]), (2, 3, []), (5, 6, ["C"]), (8, 8, ["moved"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("original", "read", "edited", "written"),
    [
        ("a\n" * 4_000, "b\n" * 4_000, "c\n", "c\n"),
        ("a\nX\nb\n", "a\nb\n", "a\nNEW\nb\n", "a\nNEW\nX\nb\n"),
    ],
    ids=["too long to compare", "a line of the author among new ones"],
)
def test_lines_among_changes(original: str, read: str, edited: str, written: str) -> None:
    assert preserve_lines(original, read, edited) == written
