"""The rows of a call of a tool."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.conversation import ToolUse
from mahtab_tui.tui.transcript.layout import LONGEST, EntryRows, estimate_rows, tool_rows
from tests.unit.test_transcript_rows import PALETTE


def use(arguments: str, text: str = "", state: str = "ok") -> ToolUse:
    return ToolUse(author="demo", name="look", arguments=arguments, text=text, state=state)


def head(arguments: str, state: str = "ok") -> str:
    (row,) = tool_rows(use(arguments, state=state), 10_000, PALETTE)
    return row.text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"pattern": "a b", "count": 3}', 'pattern="a b"  count=3'),
        ('{"text": "zwei\\nZeilen ☾"}', 'text="zwei\\nZeilen ☾"'),
        ("{}", ""),
        ("not\nJSON \x1b[2J", "not JSON "),
        ("[1, 2]", "[1, 2]"),
        ("[" * 100_000, "[" * LONGEST + "… (100,000 characters)"),
        (f'"{"x" * (LONGEST - 2)}"', f'"{"x" * (LONGEST - 2)}"'),
    ],
    ids=[
        "keywords",
        "one line",
        "none",
        "no JSON",
        "a list",
        "nested without end",
        "as many as are drawn",
    ],
)
def test_arguments_are_shown_in_one_line_as_they_run(arguments: str, expected: str) -> None:
    assert head(arguments) == f"⚒ look  {expected}"


def test_final_state_is_shown_in_words() -> None:
    assert [head("{}", state) for state in ("running", "ok", "error", "refused")] == [
        "⚒ look    runs",
        "⚒ look  ",
        "✗ look    error",
        "■ look    refused",
    ]


def test_result_appears_below_and_wrapped_lines_copy_as_one() -> None:
    rows = tool_rows(use("{}", "a\n\tb\n" + "x" * 30 + "\n"), 20, PALETTE)
    assert [(row.text, row.soft) for row in rows[1:]] == [
        ("  a", False),
        ("      b", False),
        ("  " + "x" * 18, False),
        ("x" * 12, True),
    ]


@pytest.mark.parametrize("text", ["a", "a\nb\nc"])
def test_height_is_known_before_drawing_if_nothing_wraps(text: str) -> None:
    rows = EntryRows(entry := use("{}", text), 40, PALETTE)
    rows.update()
    assert estimate_rows(entry, 40) == len(rows)
