"""Markdown by others, made harmless for programs that draw tags and load pictures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.export.notebook import make_inert
from mahtab_tui.export.writing import render
from tests.unit.test_export import HOSTILE, Page, cell, chosen, notebook_of

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


def test_a_very_long_text_is_not_read() -> None:
    assert make_inert("<b>\n" * 100_000).startswith("```text\n<b>\n")
