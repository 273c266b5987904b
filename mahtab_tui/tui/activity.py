"""Activity of the model, folded from records, for the transcript's last line and the header."""

from __future__ import annotations

from dataclasses import dataclass

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record

_STATES = {
    "thinking": ("is thinking", "thinking"),
    "reflecting": ("is checking the result", "checking"),
    "summarising": ("is summarising the conversation", "summarising"),
    "max-turns": ("is summing up", "summing up"),
}


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that the model does or waits for."""

    party: str
    doing: str
    """As in "is thinking"."""
    brief: str
    """Short form for the header, as in "thinking"."""
    since: float
    """Seconds since the epoch."""
    waits_for_person: bool = False


class Activities:
    """Knows what the model does now. since: seconds since the epoch; older records are past
    activities."""

    def __init__(self, since: float) -> None:
        self.now: Activity | None = None
        """None between two steps, and while code runs, when the cell shows the time."""
        self.turn_goes_on = False
        self._since = since

    def fold(self, record: Record) -> None:
        match record:
            case records.Agent():
                self._agent(record)
            case records.AssistantChatStream():
                if self.now is not None and self.now.brief != "writing":
                    self.now = Activity(self.now.party, "is writing", "writing", self.now.since)
            case records.AssistantTool():
                self._change(
                    record, f"waits for {record.name}", "using a tool", record.state == "running"
                )
            case records.Approval(guest=None):
                self._change(record, "waits for you", "waiting for you", record.state == "waiting")
            case records.Review():
                self._change(record, "waits for you", "waiting for you", record.state == "waiting")
            case records.AssistantChat() | records.AssistantReplIn(guest=None):
                self.now = None

    def _agent(self, record: records.Agent) -> None:
        doing, brief = _STATES.get(record.state, ("", ""))
        self.turn_goes_on = bool(doing) and record.time >= self._since
        self._change(record, doing, brief, bool(doing))

    def _change(
        self,
        record: records.Agent | records.AssistantTool | records.Approval | records.Review,
        doing: str,
        brief: str,
        begins: bool,
    ) -> None:
        waits = brief == "waiting for you"
        party = record.party or "model"
        self.now = (
            Activity(party, doing, brief, record.time, waits)
            if begins and record.time >= self._since
            else None
        )


class Waiting:
    """Return what waits for the user: code, a search, or a line that code reads."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def fold(self, record: Record) -> None:
        match record:
            case records.SearchFinal():  # a stopped call no longer waits for an answer
                self._since = {
                    key: since
                    for key, since in self._since.items()
                    if key[1:3] != (record.tree, record.node)
                }
            case records.SearchFanOut():
                self._fold((record.tag, record.tree, record.node, record.request), record)
            case records.Approval() | records.Review() | records.Input():
                self._fold((record.tag, record.request), record)

    def _fold(
        self,
        key: tuple[str, ...],
        record: records.SearchFanOut | records.Approval | records.Review | records.Input,
    ) -> None:
        if record.state == "waiting":
            self._since.setdefault(key, record.time)
        else:
            self._since.pop(key, None)

    @property
    def since(self) -> float | None:
        """When the first of it began to wait, in seconds since the epoch; None if nothing waits."""
        return min(self._since.values(), default=None)
