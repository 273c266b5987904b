"""What the agent gets of a resumed conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mahtab_tui.agent.host import ConversationSummary, EarlierSession, StoredMessage
from mahtab_tui.bus.records import (
    AgentSession,
    AssistantChat,
    Branch,
    Hide,
    Private,
    Record,
    RecordHandler,
    Replace,
    Summary,
    Usage,
    UserAttachment,
    UserChat,
)
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.prompt_sections import render_context
from mahtab_tui.session.attachments import render_attachment


class ConversationLog(RecordHandler):
    """Keeps the conversation, for what answers from now on."""

    kinds = (
        UserChat,
        UserAttachment,
        AssistantChat,
        Summary,
        Hide,
        Replace,
        Private,
        Branch,
        AgentSession,
        Usage,
    )

    def __init__(self, past: Iterable[Record]) -> None:
        """
        Args:
            past: The records of the resumed session.
        """
        super().__init__()
        self._records: list[Record] = [record for record in past if isinstance(record, self.kinds)]

    def fold(self, record: Record) -> None:
        self._records.append(record)

    def before(self, turn: int | None) -> list[Record]:
        """Return the records before a question; all for None."""
        return [
            record
            for record in list(self._records)
            if turn is None or (getattr(record, "turn", None) or 0) < turn
        ]

    def earlier_session(self, agent: str) -> EarlierSession:
        """Return the newest session of an agent, unless the user has since taken out of the
        conversation what it may remember."""
        for record in reversed(list(self._records)):
            match record:
                case AgentSession(agent=name) if name == agent:
                    cost = self._session_cost(record)
                    return EarlierSession(record.text, record.turn or 0, cost)
                # What comes after the beginning of a branch is no part of it.
                case Hide(hidden=True) | Private(private=True) | Replace(restored=False) | Branch():
                    break
        return EarlierSession()

    def _session_cost(self, session: AgentSession) -> float:
        """Return what the questions of an agent's session have cost, in US dollars."""
        turns: set[int | None] = set()
        cost = 0.0
        for record in list(self._records):
            match record:
                case AgentSession(agent=session.agent, text=session.text, turn=turn):
                    turns.add(turn)
                case Usage(model=session.agent, source="agent", turn=turn) if turn in turns:
                    cost += record.cost or 0.0
        return cost


def load_pictures(past: Sequence[Record]) -> dict[str, EncodedPicture]:
    """Return the attached pictures of a resumed conversation, by their ids."""
    pictures: dict[str, EncodedPicture] = {}
    for record in past:
        match record:
            case UserAttachment(
                picture=str(id),
                mime=str(mime),
                data=str(data),
                width=int(width),
                height=int(height),
            ):
                pictures[id] = EncodedPicture(mime, data, width, height)
    return pictures


def load_messages(past: Sequence[Record]) -> list[StoredMessage]:
    """Return the questions and answers of a resumed conversation, with their attachments."""
    attachments: dict[int | None, list[str]] = {}
    for record in past:
        if isinstance(record, UserAttachment):
            attachments.setdefault(record.turn, []).append(render_attachment(record))

    messages: list[StoredMessage] = []
    for record in past:
        if isinstance(record, UserChat):
            elements = attachments.get(record.turn, [])
            context = render_context("", attachments="\n".join(elements))
            messages.append(StoredMessage("user", record.text, record.turn, None, context))
        elif isinstance(record, AssistantChat):
            messages.append(StoredMessage("assistant", record.text, record.turn, record.step))
    return messages


def load_summary(past: Sequence[Record]) -> ConversationSummary | None:
    """Return the summary of a resumed conversation, unless the user has since hidden or replaced a
    part of it."""
    summary: ConversationSummary | None = None
    later_entries: set[str] = set()
    """Entries since the summary, which it does not cover."""
    for record in past:
        if isinstance(record, Summary) and record.text:
            summary = ConversationSummary(record.turn, record.text)
            later_entries = set()
        elif isinstance(record, Hide | Replace) and record.entry not in later_entries:
            summary = None
        elif record.entry_name:
            later_entries.add(record.entry_name)
    return summary
