"""What the model or an agent is doing, and what the user is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mahtab_tui.bus import records
from mahtab_tui.bus.plans import requested_steps
from mahtab_tui.bus.records import Record

# By the state in a record: what the transcript says of the author, and the short form in the header.
_ACTIVITIES = {
    "thinking": ("is thinking", "thinking"),
    "reflecting": ("is checking the result", "checking"),
    "summarising": ("is summarising the conversation", "summarising"),
    "max-turns": ("is summing up", "summing up"),
    "stalled": ("is summing up", "summing up"),
}
_WAITING_BRIEF = "waiting for you"


def step_suffix(step: int | None) -> str:
    """Name a step after the first.

    Args:
        step: From 0.
    """
    return f" · step {step + 1}" if step else ""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a model or an agent is doing."""

    author: str
    doing: str
    """What follows the author's name, such as ``is thinking``."""
    brief: str
    """The same in fewer words, such as ``thinking``."""
    since: float
    """Seconds since the epoch."""
    read_share: float | None = None
    """The share of the prompt that the model has read, from 0 to 1; None if it reads nothing, or its
    server does not say."""

    @property
    def header_text(self) -> str:
        """What the header says."""
        if self.read_share is None:
            return self.brief
        return f"reading {self.read_share:.0%}"

    @property
    def waits_for_person(self) -> bool:
        return self.brief == _WAITING_BRIEF


class Activities:
    """The current activity of the model. since: the session's start, in seconds since the epoch."""

    def __init__(self, since: float) -> None:
        self.current: Activity | None = None
        """None between two steps and while code runs."""
        self.turn_running = False
        self._since = since
        self._plan_turn: int | None = None
        """The question that has a plan carried out. Its steps are counted, not the replies."""

    def fold(self, record: Record) -> None:
        match record:
            case records.UserChat(turn=turn):
                if requested_steps(record.text):
                    self._plan_turn = turn
                elif turn == self._plan_turn:
                    self._plan_turn = None
            case records.Agent(state=state):
                doing, brief = _ACTIVITIES.get(state, ("", ""))
                self.turn_running = bool(doing) and record.time >= self._since
                self._change(record, doing, brief, bool(doing))
            case records.AssistantReading(share=share) if self.current is not None:
                read_share = share if share < 1 else None
                self.current = replace(self.current, read_share=read_share)
            case records.AssistantChatStream() if self.current is not None:
                self.current = replace(
                    self.current, doing="is writing", brief="writing", read_share=None
                )
            case records.AssistantTool(state=state):
                doing = f"waits for {record.name}"
                self._change(record, doing, "using a tool", state == "running")
            case records.Approval(guest=None, state=state) | records.Review(state=state):
                self._change(record, "waits for you", _WAITING_BRIEF, state == "waiting")
            case records.AssistantChat() | records.AssistantReplIn(guest=None):
                self.current = None

    def _change(
        self,
        record: records.Agent | records.AssistantTool | records.Approval | records.Review,
        doing: str,
        brief: str,
        begins: bool,
    ) -> None:
        """Begin or end an activity.

        Args:
            begins: Whether it is going on now.
        """
        self.current = None
        if begins and record.time >= self._since:
            if isinstance(record, records.Agent):
                carries_out_plan = self._plan_turn is not None and record.turn == self._plan_turn
                suffix = "" if carries_out_plan else step_suffix(record.step)
                doing += suffix
                brief += suffix
            self.current = Activity(record.party or "model", doing, brief, record.time)


class PendingRequests:
    """Since when the user is asked something."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def fold(self, record: Record) -> None:
        key: tuple[str, ...]
        match record:
            case records.SearchFinal():
                # A stopped call no longer waits for an answer.
                call = (record.tree, record.node)
                for request_key in list(self._since):
                    if request_key[1:3] == call:
                        del self._since[request_key]
                return
            case records.SearchFanOut():
                key = (record.tag, record.tree, record.node, record.request)
            case records.Approval() | records.Review() | records.Input():
                key = (record.tag, record.request)
            case _:
                return
        if record.state == "waiting":
            self._since.setdefault(key, record.time)
        else:
            self._since.pop(key, None)

    @property
    def since(self) -> float | None:
        """When the oldest open question was asked, in seconds since the epoch; None without one."""
        return min(self._since.values(), default=None)
