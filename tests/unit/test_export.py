"""A session as a notebook, a script, Markdown and a page."""

from __future__ import annotations

import ast
import json
import re
import sys
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
from mahtab_tui.bus.codec import as_json, from_json
from mahtab_tui.bus.conversation import Cell, Question
from mahtab_tui.bus.records import Record
from mahtab_tui.export.entries import (
    Conversation,
    NothingToExport,
    Selected,
    select,
)
from mahtab_tui.export.notebook import make_inert
from mahtab_tui.export.writing import ENDINGS, preserve_lines, render, write
from mahtab_tui.store.resume import TAIL, find_session, new_store, resumed_store
from mahtab_tui.tui.transcript.fold import Transcript

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


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
    text, kinds = (
        "".join(text for _, text in outputs),
        tuple((kind, len(text)) for kind, text in outputs),
    )
    who: Any = {"party": "you", **by}
    return [
        begin(code, cell=number, **who),
        *(
            [records.Display(outputs[0][1], cell=number, mime=display[0], data=display[1])]
            if display
            else []
        ),
        end(text, cell=number, status=status, duration=0.5, kinds=kinds, **who),
    ]


STORY: list[Record] = [
    *cell(1, "import math"),
    *cell(2, "x = 4\nprint('a')\nx", ("stdout", "a\n"), ("value", "4\n")),
    records.UserChat("What is **x**?", turn=1),
    records.UserAttachment("…", turn=1, label="@notes.txt"),
    records.AssistantChat(
        "I look.\n\n```python\nprint(x)\n```\n\nAnd this:\n\n```python\nx + 1\n```",
        turn=1,
        step=0,
        party="demo",
    ),
    *cell(3, "print(x)", ("stdout", "4\n"), party="demo", turn=1, step=0, block=0),
    records.AssistantChat("It is 4.", turn=1, step=1, party="demo"),
    *cell(
        4,
        "1/0",
        (
            "traceback",
            "Traceback (most recent call last):\nZeroDivisionError: division by zero\nHint: x\n",
        ),
        status="error",
    ),
    *cell(5, "plot()", ("display", "<picture>\n"), display=("image/png", PIXEL)),
]


def chosen(story: list[Record] = STORY, **options: Any) -> Selected:
    return select(Conversation(story), "s1", **options)


def notebook_of(selected: Selected) -> Any:
    return nbformat.reads(render(selected, ".ipynb"), as_version=4)


def test_code_of_an_answer_stands_between_its_words() -> None:
    shown = [
        entry.number or entry.code if isinstance(entry, Cell) else entry.plain_text
        for entry in Conversation(STORY).entries
    ]
    assert shown == [
        1, 2, "What is **x**?", "I look.", 3, "And this:", "x + 1", "It is 4.", 4, 5,
    ]  # fmt: skip


def test_export_has_the_entries_of_the_transcript() -> None:
    transcript = Transcript(since=0.0)
    transcript.fold(STORY)
    shown = [(type(entry), entry.key, entry.plain_text) for entry in transcript.entries]
    assert shown == [
        (type(entry), entry.key, entry.plain_text) for entry in Conversation(STORY).entries
    ]


def test_thoughts_and_empty_answers_are_not_exported() -> None:
    story: list[Record] = [
        records.UserChat("q", turn=1),
        records.AssistantChat("<think>\nsecretly\n</think>\nSo.", turn=1, step=0, party="demo"),
        records.AssistantChat("", turn=1, step=1, party="demo", stopped=True),
    ]
    assert [entry.plain_text for entry in Conversation(story).entries] == ["q", "So."]


def test_late_output_is_exported_with_its_cell() -> None:
    late = records.UserReplOut("from a thread\n", late=True)
    story = [*cell(1, "start()", ("stdout", "started\n")), late, *cell(2, "x")]
    made = notebook_of(chosen(story))
    assert [output.text for output in made.cells[0].outputs] == ["started\n", "from a thread\n"]


def test_hidden_code_that_did_not_run_is_omitted() -> None:
    hidden = [*STORY, records.Hide(entry="code 1.0.1", hidden=True)]
    assert "did not run" in render(chosen(hidden), ".md")
    assert "did not run" not in render(chosen(hidden, shown=True), ".md")


def test_notebook_has_output_bundles_and_authors() -> None:
    made = notebook_of(chosen())
    nbformat.validate(made)
    by_id = {cell.id: cell for cell in made.cells}
    assert [output.output_type for output in by_id["cell-2"].outputs] == [
        "stream",
        "execute_result",
    ]
    assert by_id["cell-2"].outputs[1].data == {"text/plain": "4"}
    assert (by_id["cell-4"].outputs[0].ename, by_id["cell-4"].outputs[0].evalue) == (
        "ZeroDivisionError",
        "division by zero",
    )
    assert by_id["cell-5"].outputs[0].data["image/png"].strip() == PIXEL
    assert by_id["cell-3"].metadata.mahtab == {
        "by": "model",
        "name": "demo",
        "question": 1,
        "status": "ok",
        "seconds": 0.5,
    }
    assert by_id["question-1"].source == "**Question (with @notes.txt)**\n\nWhat is **x**?"
    assert made.metadata.mahtab.title == "What is **x**?"


def test_cell_number_that_notebooks_do_not_count_is_omitted() -> None:
    [made] = notebook_of(chosen(cell(-1, "x = 4\nx", ("value", "4\n")))).cells
    assert (made.execution_count, made.outputs[0].execution_count, made.source) == (
        None,
        None,
        "x = 4\nx",
    )


def test_same_session_gives_the_same_notebook() -> None:
    assert render(chosen(), ".ipynb") == render(chosen(), ".ipynb")


def test_a_script_is_python_that_jupytext_reads() -> None:
    script = render(chosen(), ".py")
    ast.parse(script)
    sources = [
        cell.source
        for cell in jupytext.reads(script, fmt="py:percent").cells
        if cell.cell_type == "code"
    ]
    assert sources == ["import math", "x = 4\nprint('a')\nx", "print(x)", "1/0", "plot()"]


def test_chat_text_never_becomes_code_of_a_script() -> None:
    text = "a\rimport b\x0bimport c\x0cimport d\u2028import e\n# %%\nimport f\n\x00\x1b[31m%%bash"
    story = [
        records.UserChat(text, turn=1),
        records.AssistantChat(text, turn=1, step=0, party=text),
        *cell(1, "x = 1"),
    ]
    assert [ast.unparse(line) for line in ast.parse(render(chosen(story), ".py")).body] == ["x = 1"]


def test_markdown_has_the_outputs_and_no_fence_ends_early() -> None:
    story = cell(1, "print('```')", ("stdout", "```\nstill output\n"))
    assert "````text\n```\nstill output\n````" in render(chosen(story), ".md")
    assert "ZeroDivisionError: division by zero" in render(chosen(), ".md")


@pytest.mark.parametrize("ending", ENDINGS)
def test_hidden_undone_and_private_entries(ending: str) -> None:
    story: list[Record] = [
        *cell(1, "kept = 'kept-1'"),
        *cell(2, "hidden = 'hidden-2'"),
        *cell(3, "undone = 'undone-3'"),
        *cell(4, "print(secret, 'private-4')", ("stdout", "private-4\n")),
        records.Hide(entry="cell 2", hidden=True),
        records.Undo("", cells=(3,), undone=True),
        records.Private(name="secret", private=True, cells=(4,)),
    ]
    everything, shown = render(chosen(story), ending), render(chosen(story, shown=True), ending)
    assert all(word in everything for word in ("kept-1", "hidden-2", "undone-3"))
    assert "kept-1" in shown
    assert all(word not in shown for word in ("hidden-2", "undone-3"))
    assert "private-4" not in everything + shown
    assert "private variable" in everything


@pytest.mark.parametrize("ending", [".ipynb", ".md", ".html"])
def test_long_output_is_exported_with_both_ends_and_the_omitted_count(ending: str) -> None:
    tool = records.AssistantTool("x" * 5_000, call="1.0.0", name="read", state="ok")
    story = [*cell(1, "print()", ("stdout", "first " + "x" * 5_000 + " last\n")), tool]
    text = render(with_asides(story, longest=1_000), ending)
    assert "first" in text
    assert "last" in text
    assert "4,012 characters are left out here" in text
    assert "4,000 characters are left out here" in text
    assert len(text) < len(render(with_asides(story, longest=sys.maxsize), ending)) - 7_000
    assert "Outputs of 2 are shortened" in with_asides(story, longest=1_000).sentence("f")


HOSTILE = [
    "<script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>", "![x](https://tracker.example/p.png)", "[x](javascript:alert(1))",
    "[y](data:text/html,<script>alert(1)</script>)", "<iframe src='https://e.example'></iframe>", "</style></title><svg onload=alert(1)>",
    "\x1b]0;title\x07\x1b[31mred", "`</code><script>`", "[z]: https://e.example/x\n![z]", "<https://tracker.example>", "\ud800", "[x](ssh://host/x)", "[x](//tracker.example/x)",
]  # fmt: skip
TAGS = set(
    "html head meta title style body main details summary h1 h2 h3 h4 h5 h6 div p b pre span img table thead tbody tr th td a ul ol li em strong code"
    " blockquote hr br".split()
)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.bad.append(tag)
        for name, value in attrs:
            link = (
                tag == "a"
                and name == "href"
                and (value or "").startswith(("http://", "https://", "mailto:"))
            )
            picture = tag == "img" and name == "src" and (value or "").startswith("data:image/")
            if name.startswith("on") or (
                name in ("src", "href", "srcset", "action", "style")
                and not (link or picture)
                and tag != "td"
            ):
                self.bad.append(f"{tag} {name}={value}")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_loads_and_runs_nothing(text: str) -> None:
    story: list[Record] = [
        records.UserChat(text, turn=1),
        records.AssistantChat(text, turn=1, step=0, party=text),
        *cell(1, text, ("stdout", text), ("value", text), ("traceback", text)),
        *cell(
            2,
            "t",
            ("display", "t\n"),
            display=(
                "text/html",
                f"<table><tr><th>{text}</th><td onclick='x()'>{text}</td></tr></table>{text}",
            ),
        ),
        *cell(3, "m", ("display", "m\n"), display=("text/markdown", text)),
        *cell(4, "p", ("display", "p\n"), display=("image/png", f'"><script>{text}')),
    ]
    page = render(chosen(story), ".html")
    reader = Page()
    reader.feed(page)
    assert reader.bad == []
    assert "\x1b" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("ending", ENDINGS)
def test_anything_can_be_written(ending: str, tmp_path: Path) -> None:
    file, text = tmp_path / f"it{ending}", "\n".join(HOSTILE)
    write(chosen([records.UserChat(text, turn=1), *cell(1, text, ("stdout", text))]), file)
    assert file.read_text("utf-8")
    if ending == ".ipynb":
        nbformat.validate(json.loads(file.read_text("utf-8")))


@pytest.mark.parametrize("link", ["", "target.md", "gone.md"])
def test_existing_file_or_link_is_overwritten_only_if_allowed(link: str, tmp_path: Path) -> None:
    target, file = tmp_path / "target.md", tmp_path / ("it.md" if link else "target.md")
    target.write_text("mine")
    target.chmod(0o640)
    if link:
        file.symlink_to(link)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileExistsError):
        write(chosen(), file)
    assert target.read_text() == "mine"
    write(chosen(), file, over=True)
    assert "What is **x**?" in file.read_text()
    assert target.stat().st_mode & 0o777 == 0o640
    assert file.is_symlink() == bool(link)
    assert sorted(tmp_path.iterdir()) == sorted({*before, file.resolve()})


def test_folder_and_maximum_length_name_are_handled(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    for over in (False, True):
        with pytest.raises(IsADirectoryError):
            write(chosen(), tmp_path / "folder.md", over=over)
    write(chosen(), tmp_path / f"{'日' * 84}.md")
    with pytest.raises(OSError, match="name too long"):
        write(chosen(), tmp_path / f"{'x' * 300}.md")


@pytest.mark.parametrize("story", [[], [records.Notice("Full.", level="warning")]])
def test_session_without_words_or_code_gives_one_sentence(story: list[Record]) -> None:
    with pytest.raises(NothingToExport, match=r"Nothing has been said or run yet\."):
        select(Conversation(story, asides=True), "s1")


def test_unanswered_question_is_exported() -> None:
    story: list[Record] = [
        records.UserChat("q", turn=1),
        records.UserReplIn("x", cell=1, party="you"),
    ]
    (question, code) = Conversation(story).entries
    assert isinstance(question, Question)
    assert isinstance(code, Cell)
    assert all(render(chosen(story), ending) for ending in ENDINGS)


SEARCH: list[Record] = [
    *cell(1, "rlm('Who *won*?', text)", ("value", "'Ann'\n")),
    records.SearchBegin("Who *won*?", tree="t", node="1", seq=0, model="demo", cell=1),
    records.SearchReplIn("FINAL(rlm('Who?', part))", tree="t", node="1", seq=1, turn=1),
    records.Usage(tree="t", node="1", seq=2, model="demo", cost=0.02),
    records.SearchBegin(
        "Who?", tree="t", node="1.1", seq=3, parent="1", model="small", index=1, of=3
    ),
    records.SearchReplIn("print(1)", tree="t", node="1.1", seq=4, turn=1),
    records.SearchReplOut(
        "```\n</details><script>x</script>\n", tree="t", node="1.1", seq=5, turn=1
    ),
    records.SearchFinal("Ann", tree="t", node="1.1", seq=6),
    records.Usage(tree="t", node="1.1", seq=7, model="small", cost=0.01),
    records.SearchReplOut("", tree="t", node="1", seq=8, turn=1),
    records.SearchFinal("Ann, I think", tree="t", node="1", seq=9, state="partial"),
]
TOOL: dict[str, Any] = {"call": "1.0.0", "name": "read", "arguments": '{"path": "a.txt"}'}
SEARCH_AND_TOOLS: list[Record] = [
    *SEARCH,
    records.UserChat("And then?", turn=1),
    records.AssistantTool(**TOOL, state="running"),
    records.AssistantTool("line 1", **TOOL, state="ok"),
    records.AssistantTool("No.", call="1.0.1", name="edit", arguments="{}", state="refused"),
    records.Notice("The namespace was *kept*."),
    records.Notice("The disk is <full>.", level="warning"),
    records.Kernel("The kernel died: it exited with code 3.", state="dead"),
]


def with_asides(story: list[Record], **options: Any) -> Selected:
    return select(Conversation(story, asides=True), "s1", **options)


def test_searches_tool_calls_and_warnings_appear_in_order() -> None:
    made = notebook_of(with_asides(SEARCH_AND_TOOLS))
    nbformat.validate(made)
    assert [cell.cell_type for cell in made.cells] == ["code", *["markdown"] * 6]
    search, _, read, edit, full, died = (cell.source for cell in made.cells[1:])
    assert search == (
        "<details><summary>Search: Who *won*? · 2 calls · $0.0300 · partial</summary>\n\n"
        "```text\nAnn, I think\n```\n\n</details>"
    )
    assert (
        "<summary>read {&quot;path&quot;: &quot;a.txt&quot;}</summary>\n\n```text\nline 1\n```"
        in read
    )
    assert "<summary>edit {} · refused</summary>" in edit
    assert (full, died) == (
        r"*The disk is &lt;full\>.*",
        "*The kernel died: it exited with code 3.*",
    )
    assert made.cells[-1].metadata.mahtab["by"] == "program"


def test_page_folds_annotations_and_script_omits_them() -> None:
    page = render(with_asides(SEARCH_AND_TOOLS), ".html")
    assert page.count("<details>") == 3
    assert "The disk is &lt;full&gt;." in page
    assert "was *kept*" not in page
    script = render(with_asides(SEARCH_AND_TOOLS), ".py")
    assert all(word not in script for word in ("details", "print(1)", "line 1", "disk"))


@pytest.mark.parametrize("ending", [".ipynb", ".md", ".html"])
def test_a_search_goes_with_its_cell(ending: str) -> None:
    hidden = [*SEARCH, *cell(2, "kept"), records.Hide(entry="cell 1", hidden=True)]
    undone = [*SEARCH, *cell(2, "kept"), records.Undo("", cells=(1,), undone=True)]
    private = [*SEARCH, *cell(2, "kept"), records.Private(name="text", private=True, cells=(1,))]
    for story in (hidden, undone):
        assert "I think" in render(with_asides(story), ending)
        assert "I think" not in render(with_asides(story, shown=True), ending)
    assert "I think" not in render(with_asides(private), ending)


def test_secrets_are_covered_in_annotations_and_names_of_attachments() -> None:
    conversation = Conversation([*STORY, *SEARCH_AND_TOOLS], asides=True)
    secret = re.compile("Ann|line 1|full|won|notes")
    conversation.mask_texts(lambda text: secret.sub("•••", text))
    text = render(select(conversation, "s1"), ".md")
    assert text.count("•••") >= 5
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
    with pytest.raises(
        NothingToExport, match=r"A web page needs nbconvert: install mahtab-tui\[html\]\."
    ):
        render(selected, ".html")


# Markdown by others, made harmless for programs that draw tags and load pictures.

TRUSTING = MarkdownIt("commonmark", {"html": True})
"""Draws all that is in a text."""
CAREFUL = MarkdownIt("commonmark", {"html": False})
PIECES = ["<b>", "<!--", "<script", "</div>", "`", "``", "```", "~~~", "\n", "\n\n", "    ", "> ", "- ", "\\", "![", "[", "](", "](javascript:x)", ")", ">", "x", "\r", "[z]: y:x", "&lt;", "# ", "\t", "<https://a.b>", "***", "1. ", "'"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a < b, *x* and `List<int>` <https://a.b/c>",
            "a < b, *x* and `List<int>` <https://a.b/c>",
        ),
        ("List<int> x", "```text\nList<int> x\n```"),
        ("```html\n<b>\n```\n    x\n\n    <b>", "```html\n<b>\n```\n    x\n\n    <b>"),
        ("```\nit does <not> end", "````text\n```\nit does <not> end\n````"),
        ("``a`<b>``", "``a`<b>``"),
        ("vec![1]", "vec![1]"),
        ("[x](javascript:y)", "```text\n[x](javascript:y)\n```"),
        (
            "[x](https://a) [y](b.md)\n\n[z]: javascript:z",
            "[x](https://a) [y](b.md)\n\n[z]: javascript:z",
        ),
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
    story: list[Record] = [
        records.UserChat(text, turn=1),
        records.UserAttachment("", turn=1, label=text),
        records.AssistantChat(text, turn=1, step=0, party=text),
        *cell(1, text, ("stdout", text), ("value", text), ("traceback", text)),
        *cell(2, "m", ("display", "m\n"), display=("text/markdown", text), party=text),
    ]
    words = [
        each.source for each in notebook_of(chosen(story)).cells if each.cell_type == "markdown"
    ]
    for markdown in (render(chosen(story), ".md"), *words):
        reader = Page()
        reader.feed(TRUSTING.render(markdown))
        assert reader.bad == []


# Notebook of a stored session, and the spelling of its lines.

OPENED = records.NotebookFile(
    "opened", file="/a.ipynb", digest="d", first=1, cells=1, rewritable=True, time=1.0
)
CELL: list[Record] = [
    records.NotebookCell("x", position=1, kind="code", time=1.0),
    records.NotebookOutput(
        "1\n", position=1, kind="display", mime="text/html", data="<b>", time=1.0
    ),
]

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "#%%\n", "# %%\n", "\n", "c\n"]), min_size=1, max_size=12
).map("".join)


def test_resumed_session_knows_its_notebook_however_old(home: Path, project: Path) -> None:
    store, _, _ = new_store(project)
    for record in (
        OPENED,
        *CELL,
        records.NotebookWritten(digest="e", time=2.0),
        records.NotebookWritten(digest="f", time=3.0),
    ):
        store.append(record)
    for number in range(TAIL):
        store.append(records.UserReplIn("x", cell=number, time=4.0))
    store.close()
    if store.claim is not None:
        store.claim.release()
    past = resumed_store(find_session(None, project))[2]
    assert [
        record
        for record in past
        if isinstance(record, records.NotebookFile | records.NotebookWritten)
    ] == [
        OPENED,
        records.NotebookWritten(digest="f", time=3.0),
    ]


def test_records_of_notebooks_are_read_as_they_were_written() -> None:
    for record in (
        OPENED,
        *CELL,
        records.NotebookWritten(digest="e", time=2.0),
        records.UserReplOut("", cell=1, position=3, time=1.0),
    ):
        assert from_json(as_json(record)) == record


@given(LINES, LINES, LINES)
def test_unchanged_source_keeps_its_spelling(original: str, read: str, now: str) -> None:
    assert preserve_lines(original, read, read) == original
    assert preserve_lines(read, read, now) == now
    assert preserve_lines(original, read, f"{read}new\n") == f"{original}new\n"


@pytest.mark.parametrize(
    ("original", "read", "now", "written"),
    [
        ("a\n" * 4_000, "b\n" * 4_000, "c\n", "c\n"),
        ("a\nX\nb\n", "a\nb\n", "a\nNEW\nb\n", "a\nNEW\nX\nb\n"),
    ],
    ids=["too long to compare", "a line of the author among new ones"],
)
def test_lines_among_changes(original: str, read: str, now: str, written: str) -> None:
    assert preserve_lines(original, read, now) == written
