"""An answer while it comes: however it is cut, the same is drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.answers import AnswerSplitter, parse_response
from mahtab_tui.bus.logger import DisplayHandler, StreamingHandler, close_logging, setup_logging
from tests import tags

from .test_parser import ANSWERS, DOCSTRING

Drawn = dict[tuple[str, int], str]


def drawn(tokens: list[str]) -> Drawn:
    """Return the drawn text of each kind and block."""
    splitter, result = AnswerSplitter(), Drawn()
    for pieces in (*map(splitter.feed, tokens), splitter.end()):
        for kind, block, text in pieces:
            result[kind, block] = result.get((kind, block), "") + text
    return result


def blocks(tokens: list[str]) -> list[str]:
    return [
        text.strip() for (kind, _), text in drawn(tokens).items() if kind == "code" and text.strip()
    ]


def test_line_end_may_be_split() -> None:
    assert drawn(list("a\r\n\r\n```python\r\nx\r\n```\r\n")) == {
        ("chat", 0): "a\n\n",
        ("code", 0): "x\n",
    }


@given(ANSWERS, st.data())
def test_any_split_draws_the_same(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    tokens = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert drawn(tokens) == drawn([text])
    assert drawn(list(text)) == drawn([text])


WORDS = st.sampled_from(
    [
        "Words.",
        "More *words*, a < b.",
        "```bash\nls\n```",
        "- item",
        "",
        "`<assistant-repl-in>` is a tag",
        "<think>\nno:\n```python\nno\n```\n</think>",
        "<think><assistant-repl-in>no</assistant-repl-in>\n```py\n</think>",
    ]
)
CODE = st.sampled_from(
    ["x = 1", "if a < b:\n    print('<b>')", DOCSTRING, "s = '`'", "# ``` in a comment"]
)


@st.composite
def ordinary(draw: st.DrawFn) -> str:
    """An answer as models write them."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        parts.append(draw(WORDS))
        code = draw(CODE)
        parts.append(
            draw(
                st.sampled_from(
                    [
                        f"```python\n{code}\n```",
                        f"<assistant-repl-in>\n{code}\n</assistant-repl-in>",
                        f"````py\n{code}\n````",
                    ]
                )
            )
        )
    parts.append(draw(WORDS))
    return "\n".join(parts)


@given(ordinary())
def test_streamed_code_matches_the_code_that_runs(text: str) -> None:
    assert blocks([text]) == [block.strip() for block in parse_response(text).code_blocks]


def test_code_is_drawn_without_fences_and_other_languages_with_them() -> None:
    assert drawn(["one\n```python\nx\n```\ntwo\n```bash\nls\n```\n"]) == {
        ("chat", 0): "one\n",
        ("code", 0): "x\n",
        ("chat", 1): "two\n```bash\nls\n```\n",
    }


def test_a_margin_is_not_drawn() -> None:
    assert blocks(list("- so:\n  ```python\n  if x:\n      y\n  ```\n> ```py\n> z\n> ```")) == [
        "if x:\n      y".replace("      ", "    "),
        "z",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <", "a "),
        ("a <b", "a <b"),
        ("a <assistant-", "a "),
        ("``", ""),
        ("``x", "``x"),
        ("a ``", "a ``"),
        ("1", ""),
        ("12 x", "12 x"),
        ("<assistant-x", "<assistant-x"),
    ],
)
def test_only_possible_tags_and_fences_are_withheld(text: str, shown: str) -> None:
    splitter = AnswerSplitter()
    assert "".join(piece.text for piece in splitter.feed(text)) == shown
    assert shown + "".join(piece.text for piece in splitter.end()) == text


def test_empty_block_gets_no_number() -> None:
    assert drawn(["```python\n```\n```python\nx\n```\n"]) == {("code", 0): "x\n"}


def test_pieces_are_logged_with_attributes() -> None:
    log, _ = setup_logging()
    display = DisplayHandler()
    log.addHandler(display)
    stream = StreamingHandler(log, turn=1, step=0, party="claude")
    for token in ("He", "llo\n``", "`python\nx =", " 1\n``", "`\nbye <assis"):
        stream.process_token(token)
    stream.flush()
    close_logging(log)
    records = display.pop_records()
    assert {record.tag for record in records} == {tags.ASSISTANT_CHAT_STREAM}
    assert [(record.text, record.attrs["kind"], record.attrs["block"]) for record in records] == [
        ("Hello\n", "chat", 0),
        ("x = 1\n", "code", 0),
        ("bye <assis", "chat", 1),
    ]
    assert all(
        record.attrs["turn"] == 1 and record.attrs["party"] == "claude" for record in records
    )
