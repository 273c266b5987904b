"""The question before a large fan-out of a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.widgets.chips import Chip, Chips
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

_CHIPS = (
    Chip("run", "y", " y run them ", " y run ", "bold $background on $good"),
    Chip("refuse", "n", " n don't ", " n don't ", "$background on $moon"),
)


def estimate(record: Record) -> str:
    """What the calls will come to: ``340 calls at once, about 1.2 M tokens, about $1.10``."""
    calls, tokens, usd = (record.attrs.get(name) for name in ("calls", "tokens", "usd"))
    words = [f"{calls:,} calls at once" if isinstance(calls, int) else "many calls at once"]
    if isinstance(tokens, int):
        words.append(f"about {tokens / 1e6:.1f} M tokens" if tokens >= 100_000 else f"about {tokens:,} tokens")
    words.append(f"about ${usd:.2f}" if isinstance(usd, int | float) else "at a price that is not known")
    return ", ".join(words)


class FanOutRow(Widget):
    """Shown while a search waits to be allowed many calls. It takes the focus only where the editor is empty."""

    class Answered(Message):
        """The person's answer."""

        def __init__(self, request: str, run: bool) -> None:
            super().__init__()
            self.request = request
            self.run = run

    def __init__(self, editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._chips = Chips(_CHIPS, clock)
        self._editor_is_empty = editor_is_empty
        self._loan = FocusLoan(self)
        self._given = False
        """Whether the person gave the row the focus."""
        self._requests: dict[str, Record] = {}
        """What waits, the one that is shown first."""

    def compose(self) -> ComposeResult:
        yield Static(id="fan-out-about", markup=False)
        yield self._chips

    def on_mount(self) -> None:
        self.display = False

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        for record in records:
            if record.tag == tags.RLM_CALL and record.attrs.get("event") == "fan-out":
                request = str(record.attrs.get("request"))
                if record.attrs.get("state") != "waiting":
                    self._forget(request)
                elif request not in self._requests:
                    self._requests[request] = record
                    if len(self._requests) == 1:
                        self._open()
            elif record.tag == tags.RLM_FINAL:
                self._ended(record)

    def focus(self, scroll_visible: bool = True) -> FanOutRow:
        """Give the focus to the answers, if they are shown."""
        if self.display:
            self._given = True
            self._loan.take(self._chips)
        return self

    def _ended(self, final: Record) -> None:
        """The call that asked was stopped: nobody waits for the answer."""
        ended = [final.attrs.get(name) for name in ("tree", "node")]
        for request, record in list(self._requests.items()):
            if [record.attrs.get(name) for name in ("tree", "node")] == ended:
                self._forget(request)

    @property
    def _shown(self) -> str:
        return next(iter(self._requests), "")

    def _open(self) -> None:
        self._chips.appear()
        self.display = True
        if self._editor_is_empty() and self._loan.free:
            self._given = False
            self._loan.take(self._chips)
        self._tell()

    def _forget(self, request: str) -> None:
        """Close what is answered; show what waits behind it."""
        shown = request == self._shown
        self._requests.pop(request, None)
        if not shown:
            return
        self._loan.give_back()
        self.display = False
        if self._requests:
            self._open()

    def _tell(self) -> None:
        parts = [("A search wants to make ", "$foreground"), (estimate(self._requests[self._shown]), "bold $moon")]
        if not self._loan.taken:
            parts.append((f" · {self._key()}a click answers", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*parts))

    def _key(self) -> str:
        for active in self.screen.active_bindings.values():
            if active.binding.id == "focus-approval":
                return f"{self.app.get_key_display(active.binding)} or "
        return ""

    @on(Chips.Chosen)
    def _chosen(self, message: Chips.Chosen) -> None:
        message.stop()
        request = self._shown
        self.post_message(self.Answered(request, message.answer == "run"))
        self._forget(request)

    @on(Chips.Elsewhere)
    def _elsewhere(self, message: Chips.Elsewhere) -> None:
        """What was typed for the editor goes there, and the focus with it."""
        message.stop()
        if (message.early and self._given) or (lender := self._loan.lender) is None:
            return
        self._loan.give_back()
        lender.post_message(message.event)

    @on(Chips.FocusMoved)
    def _focus_moved(self, message: Chips.FocusMoved) -> None:
        message.stop()
        if self._requests:
            self._tell()
