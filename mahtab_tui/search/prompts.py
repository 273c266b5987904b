"""The messages that are sent to models during a search; `system_prompts` has what comes before
them.

Outside text stands between tags that it cannot forge.
"""

from __future__ import annotations

from mahtab_tui.bus.prompt import shorten
from mahtab_tui.llm.ledger import BudgetLeft
from mahtab_tui.llm.search_prompt_words import LAST_CALL, OUTPUT, QUERY, TEXT
from mahtab_tui.sandbox.base import TurnResult, TurnStatus
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.query_examples import start_query
from mahtab_tui.search.tagged_text import defused, join_paragraphs, tagged
from mahtab_tui.search.text_descriptions import about_contexts, about_text, preview
from mahtab_tui.search.text_rows import read_rows

MAX_OUTPUT_CHARS = 10_000
"""Characters of a turn's output that are recorded, and that a model gets."""
MAX_ABOUT_CHARS = 4_000
"""Characters of the description of a text."""
SHORTENED_OUTPUT_CHARS = 1_000
"""Characters of an earlier output in a long conversation."""
EMPTY_ANSWER = "Your answer was empty. Write one block of Python, fenced with ```python. Call FINAL(answer) in it when you know the answer."
NO_CODE = (
    "There was no code in your answer, so nothing ran. Write one block of Python, fenced with ```python. If what you wrote is the answer to the"
    " query, write it once more: it will be taken as it is."
)
_REPEATED_CODE = "This is what your code prints; the same block did not run again. Answer the query from it in one sentence, without code: {query}"
CUT_OFF_ANSWER = "Your answer broke off inside the code, so nothing ran. Write a shorter block of Python, fenced with ```python and closed with ```."

_MAX_REPEATED_QUERY_CHARS = 500
"""Characters of a query that is repeated after each turn."""
_MAX_REPEATED_LONG_QUERY_CHARS = 2_000
"""Characters of a query that is repeated after a long text."""
_LONG_TEXT_CHARS = 10_000
"""After a longer text, the query of a plain call is repeated."""
_DROPPED_TEXT = "Everything after the first block was dropped and did not run."
_LAST_TURN = "This is your last turn: call FINAL with the best answer you have."

_BUDGET_FORMS = {
    "turns": "{} turns",
    "calls": "{:,} model calls",
    "tokens": "{:,} tokens",
    "usd": "${:.2f}",
    "seconds": "{:,.0f} s",
}
"""Forms of the fields of `BudgetLeft`."""

_STATUS_NOTES: dict[TurnStatus, str] = {
    "error": "The code raised an exception. Earlier assignments are kept.",
    "timed out": "The code took too long and was stopped. Earlier assignments are kept.",
    "killed": "The code took too long and could not be stopped, so the interpreter was restarted: the text is there, your variables are gone.",
    "died": "The interpreter died (usually from using too much memory) and was restarted: the text is there, your variables are gone.",
}


def first_message(query: str, text: SearchedText, budget: BudgetLeft) -> str:
    """Return the first message of a node: its text described, and its query.

    The query comes last, so that prompts begin alike.

    Args:
        query: What the node is to answer.
        text: Its text.
        budget: What is left of it.
    """
    rows = read_rows(text.text) if text.kind == "str" else None
    start = start_query(query, text, rows)
    if text.contexts:
        contexts = about_contexts(text)
        about = contexts.lines
        previews = contexts.previews
    else:
        about = about_text(text, rows)
        # Lines with words of the query say more than the end of the text.
        previews = preview(text.text, ends=not start.lines)
    description = tagged(TEXT, shorten("\n".join(about), MAX_ABOUT_CHARS))
    return join_paragraphs(
        description,
        *previews,
        start.lines,
        _budget_sentence(budget),
        tagged(QUERY, query),
        start.next_step,
    )


def turn_message(
    result: TurnResult, budget: BudgetLeft, *, cut: bool = False, query: str = ""
) -> str:
    """Return the message about a turn's code.

    Args:
        result: How the code ended.
        budget: What is left of it.
        cut: Whether text after the code was dropped.
        query: The node's query, which is repeated if it is short.
    """
    output = result.output.rstrip("\n")
    output_text = shorten(output, MAX_OUTPUT_CHARS)
    if not output.strip():
        output_text = "(nothing was printed: print what you want to see)"
    attributes = f'status="{result.status}" characters="{result.chars}"'
    # Not of quick turns, which then read the same in every run.
    if result.duration >= 1:
        attributes += f' seconds="{result.duration:.0f}"'
    return join_paragraphs(
        tagged(OUTPUT, output_text, attributes),
        _STATUS_NOTES.get(result.status, ""),
        _DROPPED_TEXT if cut else "",
        _budget_sentence(budget),
        _reminder(query, failed=result.status == "error"),
    )


def _reminder(query: str, *, failed: bool) -> str:
    """Return what to do next, with the query if it is short; empty if it is long."""
    if not 0 < len(query) <= _MAX_REPEATED_QUERY_CHARS:
        return ""
    next_step = "If this shows the answer, call FINAL with it."
    if failed:
        next_step = "Write the corrected block."
    return f"{next_step} The query is: {defused(query)}"


def shortened_turn_message(result: TurnResult) -> str:
    """Return the message about a turn's code in a conversation that is too long: only the head of
    its output."""
    head = result.output[:SHORTENED_OUTPUT_CHARS]
    omission = f"Only its head is kept here, {len(head):,} of {result.chars:,} characters. Print again what you need of it; variables are still there."
    return join_paragraphs(
        tagged(OUTPUT, head, f'status="{result.status}" characters="{result.chars}"'),
        _STATUS_NOTES.get(result.status, ""),
        omission,
    )


def repeated_code(query: str) -> str:
    """Return the message after a block that repeats the one before."""
    return _REPEATED_CODE.format(query=defused(query))


def feedback_message(feedback: str, budget: BudgetLeft) -> str:
    """Return a message about an answer without code that ran.

    Args:
        budget: What is left of it.
    """
    return join_paragraphs(feedback, _budget_sentence(budget))


def last_message(reason: str, query: str, findings: str = "") -> str:
    """Ask for the last answer.

    Args:
        reason: Why no code runs any more.
        findings: What answers so far say.
    """
    return join_paragraphs(
        f"{LAST_CALL} {reason}",
        "Answer the query now in words and figures, from what you have found so far. Write no code.",
        tagged(OUTPUT, findings) if findings else "",
        tagged(QUERY, query),
    )


def plain_message(query: str, text: str) -> str:
    """Return the message of a call that reads its text."""
    if not text:
        return tagged(QUERY, query)
    repeated_query = ""
    if len(text) > _LONG_TEXT_CHARS and len(query) < _MAX_REPEATED_LONG_QUERY_CHARS:
        repeated_query = f"Now answer the query: {defused(query)}"
    return join_paragraphs(tagged(QUERY, query), tagged(TEXT, text), repeated_query)


def _budget_sentence(budget: BudgetLeft) -> str:
    """Return a sentence about what is left; empty if there are no limits."""
    amounts: list[str] = []
    for name, form in _BUDGET_FORMS.items():
        value = getattr(budget, name)
        if name == "turns" and value == 1:
            amounts.append("1 turn")
        elif value is not None:
            amounts.append(form.format(value))
    sentence = f"Left: {', '.join(amounts)}." if amounts else ""
    return f"{sentence} {_LAST_TURN}" if budget.turns == 1 else sentence
