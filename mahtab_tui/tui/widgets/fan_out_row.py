"""The row that asks before a search makes many calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.records import Record, SearchFanOut, SearchFinal
from mahtab_tui.tui.widgets.chips import Chip
from mahtab_tui.tui.widgets.prompt_row import PromptRow


def estimate(asked: SearchFanOut) -> str:
    """Estimate the calls: ``340 calls at once, about 1.2 M tokens, about $1.10``; after others ``40
    calls more after 50``."""
    count = (
        "many calls"
        if asked.calls is None
        else f"{asked.calls:,} call{'' if asked.calls == 1 else 's'}"
    )
    words = [f"{count} more after {asked.made:,}" if asked.made else f"{count} at once"]
    if asked.tokens is not None:
        words.append(
            f"about {asked.tokens / 1e6:.1f} M tokens"
            if asked.tokens >= 100_000
            else f"about {asked.tokens:,} tokens"
        )
    words.append("at an unknown price" if asked.usd is None else f"about ${asked.usd:.2f}")
    return ", ".join(words)


class FanOutRow(PromptRow[SearchFanOut]):
    """Shown while a search waits for permission to make many calls."""

    @dataclass
    class Answered(Message):
        request: str
        run: bool

    asks = SearchFanOut
    offers = (
        Chip("run", "y", " y run them ", " y run ", "bold $background on $good"),
        Chip("refuse", "n", " n don't ", " n don't ", "$background on $moon"),
    )

    def compose(self) -> ComposeResult:
        yield Static(id="fan-out-about", markup=False)
        yield self._chips

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            super().fold([record])
            if isinstance(record, SearchFinal):  # the questions of a call that has ended
                for request, asked in list(self._requests.items()):
                    if (asked.tree, asked.node) == (record.tree, record.node):
                        self.forget(request)

    def tell(self) -> None:
        parts = [
            ("A search wants to make ", "$foreground"),
            (estimate(self._requests[self._shown]), "bold $moon"),
        ]
        if way := self._way_here():
            parts.append((f" · {way}", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*parts))

    def answered(self, request: str, answer: str) -> None:
        self.post_message(self.Answered(request, answer == "run"))
        self.forget(request)
