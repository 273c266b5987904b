"""What the model or an agent is doing, and what the user is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.plans import requested_steps
from mahtab_tui.bus.records import Record


class _ActivityWords(NamedTuple):
    """How an activity is named."""

    doing: str
    """What the transcript says after the author's name."""
    brief: str
    """The same in fewer words, for the header."""


_AGENT_WORDS = {
    "thinking": _ActivityWords("is thinking", "thinking"),
    "reflecting": _ActivityWords("is checking the result", "checking"),
    "summarising": _ActivityWords("is summarising the conversation", "summarising"),
    "max-turns": _ActivityWords("is summing up", "summing up"),
    "stalled": _ActivityWords("is summing up", "summing up"),
}
"""By the state of a model or an agent. In other states it does nothing."""
_WRITING = _ActivityWords("is writing", "writing")
_WAITING = _ActivityWords("waits for you", "waiting for you")


def step_suffix(step: int | None) -> str:
    """Name a step after the first.

    Args:
        step: The number of the step, from 0; None for none.
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
        """Whether it goes on only when the user has answered."""
        return self.brief == _WAITING.brief


class Activities:
    """The current activity of the model, or of the agent that answers."""

    def __init__(self, since: float) -> None:
        """
        Args:
            since: When the session started, in seconds since the epoch. What older records say has
                ended.
        """
        self.current: Activity | None = None
        """None between two steps and while code runs."""
        self.turn_running = False
        """Whether a question is being answered."""
        self._since = since
        self._plan_turn: int | None = None
        """The question that has a plan carried out. Its steps are counted, not the replies."""

    def fold(self, record: Record) -> None:
        """Take what a record says about the activity."""
        match record:
            case records.UserChat(turn=turn):
                if requested_steps(record.text):
                    self._plan_turn = turn
                elif turn == self._plan_turn:
                    self._plan_turn = None
            case records.Agent(state=state):
                words = _AGENT_WORDS.get(state)
                self.turn_running = words is not None and record.time >= self._since
                if words is not None:
                    words = self._with_step(words, record)
                self._change(record, words)
            case records.AssistantReading(share=share) if self.current is not None:
                read_share = share if share < 1 else None
                self.current = replace(self.current, read_share=read_share)
            case records.AssistantChatStream() if self.current is not None:
                self.current = replace(
                    self.current, doing=_WRITING.doing, brief=_WRITING.brief, read_share=None
                )
            case records.AssistantTool(state="running"):
                words = _ActivityWords(f"waits for {record.name}", "using a tool")
                self._change(record, words)
            case records.Approval(guest=None, state="waiting") | records.Review(state="waiting"):
                self._change(record, _WAITING)
            case records.AssistantTool() | records.Approval(guest=None) | records.Review():
                self.current = None
            case records.AssistantChat() | records.AssistantReplIn(guest=None):
                self.current = None

    def _change(
        self,
        record: records.Agent | records.AssistantTool | records.Approval | records.Review,
        words: _ActivityWords | None,
    ) -> None:
        """Begin another activity.

        Args:
            record: Says who does it, and since when.
            words: What the activity is called; None if the last one has only ended.
        """
        self.current = None
        if words is not None and record.time >= self._since:
            author = record.party or "model"
            self.current = Activity(author, words.doing, words.brief, record.time)

    def _with_step(self, words: _ActivityWords, record: records.Agent) -> _ActivityWords:
        """Add the step of the answer, unless the user sees the steps of a plan instead."""
        carries_out_plan = self._plan_turn is not None and record.turn == self._plan_turn
        if carries_out_plan:
            return words
        suffix = step_suffix(record.step)
        return _ActivityWords(words.doing + suffix, words.brief + suffix)


class PendingRequests:
    """Since when the user is asked something."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}
        """When each open question was asked, by what identifies it: the tag of its record and its id,
        with the tree and the node of a search in between."""

    def fold(self, record: Record) -> None:
        """Take a question that opens, or is answered or dropped."""
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
