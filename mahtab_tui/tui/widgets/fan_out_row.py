"""The row that asks whether a search may make many calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.records import Record, SearchFanOut, SearchFinal
from mahtab_tui.bus.request_words import describe_fan_out
from mahtab_tui.tui.widgets.chips import Chip
from mahtab_tui.tui.widgets.prompt_row import PromptRow


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
        wanted_calls = describe_fan_out(self._requests[self._current])
        spans = [("A search wants to make ", "$foreground"), (wanted_calls, "bold $highlight")]
        hint = self._focus_hint()
        if hint:
            spans.append((f" · {hint}", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*spans))

    def handle_answer(self, request: str, answer: str) -> None:
        self.post_message(self.Answered(request, answer == "run"))
        self.forget(request)
