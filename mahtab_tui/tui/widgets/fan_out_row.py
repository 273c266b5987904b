"""The row that asks whether a search may make many calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.records import Record, SearchFanOut, SearchFinal
from mahtab_tui.tui.widgets.prompt_row import Chip, PromptRow

MIN_TOKENS_IN_MILLIONS = 100_000
"""At least this many tokens are given in millions."""


def estimate(request: SearchFanOut) -> str:
    """Say what a search asks for: ``340 calls at once, about 1.2 M tokens, about $1.10``, or ``40
    calls more after 50, at an unknown price``."""
    clauses = [_describe_calls(request)]
    if request.tokens is not None:
        clauses.append(f"about {_format_tokens(request.tokens)} tokens")
    if request.usd is None:
        clauses.append("at an unknown price")
    else:
        clauses.append(f"about ${request.usd:,.2f}")
    return ", ".join(clauses)


def _describe_calls(request: SearchFanOut) -> str:
    """Return how many calls a search asks for, and how many it has made."""
    # The code of a search may make calls in a loop, of which nobody knows the end.
    if request.calls is None:
        calls = "many calls"
    elif request.calls == 1:
        calls = "1 call"
    else:
        calls = f"{request.calls:,} calls"

    if request.made:
        return f"{calls} more after {request.made:,}"
    return f"{calls} at once"


def _format_tokens(token_count: int) -> str:
    """Return a number of tokens: ``90,000``, ``1.2 M``."""
    if token_count < MIN_TOKENS_IN_MILLIONS:
        return f"{token_count:,}"
    return f"{token_count / 1e6:.1f} M"


class FanOutRow(PromptRow[SearchFanOut]):
    """Asks whether a search may make many calls."""

    @dataclass
    class Answered(Message):
        """The user has decided."""

        request: str
        """The id of the request."""
        run: bool
        """Whether the search may make the calls."""

    record_type = SearchFanOut
    answer_chips = (
        Chip("run", "y", "bold $background on $good", " y run them ", " y run "),
        Chip("refuse", "n", "$background on $highlight", " n don't "),
    )

    def compose(self) -> ComposeResult:
        yield Static(id="fan-out-about", markup=False)
        yield self._chips

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            super().fold([record])
            if isinstance(record, SearchFinal):
                self._forget_requests_of(record.tree, record.node)

    def _forget_requests_of(self, tree: str, node: str) -> None:
        """Drop what a call has asked that has ended, because nobody waits for the answer."""
        for request_id, request in list(self._requests.items()):
            if (request.tree, request.node) == (tree, node):
                self.forget(request_id)

    def refresh_question(self) -> None:
        wanted_calls = estimate(self._requests[self._current])
        spans = [("A search wants to make ", "$foreground"), (wanted_calls, "bold $highlight")]
        hint = self._focus_hint()
        if hint:
            spans.append((f" · {hint}", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*spans))

    def handle_answer(self, request: str, answer: str) -> None:
        self.post_message(self.Answered(request, answer == "run"))
        self.forget(request)
