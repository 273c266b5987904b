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

MIN_MILLIONS = 100_000
"""From this number on, tokens are given in millions."""


def estimate(request: SearchFanOut) -> str:
    """Say what a search asks for: ``340 calls at once, about 1.2 M tokens, about $1.10``, or ``40
    calls more after 50``."""
    if request.calls is None:
        calls = "many calls"
    else:
        calls = f"{request.calls:,} call{'' if request.calls == 1 else 's'}"
    if request.made:
        calls += f" more after {request.made:,}"
    else:
        calls += " at once"

    parts = [calls]
    tokens = request.tokens
    if tokens is not None:
        count = f"{tokens / 1e6:.1f} M" if tokens >= MIN_MILLIONS else f"{tokens:,}"
        parts.append(f"about {count} tokens")
    if request.usd is None:
        parts.append("at an unknown price")
    else:
        parts.append(f"about ${request.usd:,.2f}")
    return ", ".join(parts)


class FanOutRow(PromptRow[SearchFanOut]):
    """Asks whether a search may make many calls."""

    @dataclass
    class Answered(Message):
        request: str
        run: bool

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
                # Drop the prompts of a call that has ended.
                for request_id, request in list(self._requests.items()):
                    if (request.tree, request.node) == (record.tree, record.node):
                        self.forget(request_id)

    def refresh_question(self) -> None:
        calls = estimate(self._requests[self._current])
        parts = [("A search wants to make ", "$foreground"), (calls, "bold $highlight")]
        hint = self._focus_hint()
        if hint:
            parts.append((f" · {hint}", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*parts))

    def handle_answer(self, request: str, answer: str) -> None:
        self.post_message(self.Answered(request, answer == "run"))
        self.forget(request)
