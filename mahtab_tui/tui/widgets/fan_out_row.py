"""The question before a large fan-out of a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.widgets.asking_row import AskingRow
from mahtab_tui.tui.widgets.chips import Chip, Chips

_CHIPS = (
    Chip("run", "y", " y run them ", " y run ", "bold $background on $good"),
    Chip("refuse", "n", " n don't ", " n don't ", "$background on $moon"),
)


def estimate(record: Record) -> str:
    """What the calls will come to: ``340 calls at once, about 1.2 M tokens, about $1.10``; behind others ``40 calls more after 50``."""
    calls, tokens, usd, made = (record.attrs.get(name) for name in ("calls", "tokens", "usd", "made"))
    count = f"{calls:,} call{'' if calls == 1 else 's'}" if isinstance(calls, int) else "many calls"
    words = [f"{count} more after {made:,}" if isinstance(made, int) and made else f"{count} at once"]
    if isinstance(tokens, int):
        words.append(f"about {tokens / 1e6:.1f} M tokens" if tokens >= 100_000 else f"about {tokens:,} tokens")
    words.append(f"about ${usd:.2f}" if isinstance(usd, int | float) else "at a price that is not known")
    return ", ".join(words)


class FanOutRow(AskingRow):
    """Shown while a search waits to be allowed many calls."""

    class Answered(Message):
        """The person's answer."""

        def __init__(self, request: str, run: bool) -> None:
            super().__init__()
            self.request = request
            self.run = run

    def __init__(self, editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(lambda clock: Chips(_CHIPS, clock), editor_is_empty, clock)

    def compose(self) -> ComposeResult:
        yield Static(id="fan-out-about", markup=False)
        yield self._chips

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        for record in records:
            if record.tag == tags.RLM_CALL and record.attrs.get("event") == "fan-out":
                request = str(record.attrs.get("request"))
                if record.attrs.get("state") == "waiting":
                    self.ask(request, record)
                else:
                    self.forget(request)
            elif record.tag == tags.RLM_FINAL:
                self._ended(record)

    def _ended(self, final: Record) -> None:
        """The call that asked was stopped: nobody waits for the answer."""
        ended = [final.attrs.get(name) for name in ("tree", "node")]
        for request, record in list(self._requests.items()):
            if [record.attrs.get(name) for name in ("tree", "node")] == ended:
                self.forget(request)

    def show(self, record: Record) -> None:
        """Nothing but the chips, and `tell`."""

    def tell(self) -> None:
        parts = [("A search wants to make ", "$foreground"), (estimate(self._requests[self._shown]), "bold $moon")]
        if way := self._way_here():
            parts.append((f" · {way}", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*parts))

    def answered(self, request: str, answer: str) -> None:
        self.post_message(self.Answered(request, answer == "run"))
        self.forget(request)
