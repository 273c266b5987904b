"""Collects what happened since the model last answered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from mahtab_tui.bus import records
from mahtab_tui.bus.escaping import escape_output
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import Record

MAX_CONTEXT_CHARS = 20_000
"""Characters of the whole context."""
MAX_RECORD_CHARS = 4_000
"""Characters of one record in the context."""
MAX_RECORDS = 1_000
"""At most this many records since the model last answered are kept, the newest ones."""
MAX_STORED_CHARS = 64_000
"""Characters of one record that are kept, before sequences in it are escaped."""

PRIVATE_CELL = "[Held back: this cell uses a variable that the user keeps private.]"
"""Sent instead of its output."""
RESUMED = "The session was resumed here with a new kernel: the variables of what ran before are gone, except for those that are said to be restored."

_MESSAGES = (
    records.UserChat
    | records.AssistantChat
    | records.AssistantReplIn
    | records.AssistantReplOut
    | records.AssistantTool
)
"""Records that are already messages in the conversation, except other agents' cells."""


class PromptHandler(records.RecordHandler):
    """Collects what the model gets with the user's next question."""

    kinds = tuple(kind for kind in records.KINDS.values() if kind.in_prompt)

    def __init__(self) -> None:
        super().__init__()
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._counts: Counter[str | None] = Counter()
        """Records since `clear` by their party, with those that are dropped."""
        self.hidden = HiddenEntries()

    def resume(self, past: Iterable[Record], *, same_kernel: bool = False) -> None:
        """Add the records of a resumed session.

        Args:
            past: The records.
            same_kernel: Whether its variables still exist.
        """
        for record in past:
            self.fold(record)
        if self._records and not same_kernel:
            self._remember(records.KernelRecord(RESUMED))

    def fold(self, record: Record) -> None:
        """Add a record if a model gets it, and not as a message of the conversation."""
        if not record.in_prompt:
            return
        self.hidden.fold(record)
        if _is_news(record):
            self._remember(_for_prompt(record))

    def _remember(self, record: Record) -> None:
        if len(record.text) > MAX_STORED_CHARS:
            record = record.changed(text=shorten(record.text, MAX_STORED_CHARS))
        self._records.append(record)
        self._counts[_party(record)] += 1

    def get_context(self, max_chars: int = MAX_CONTEXT_CHARS, *, agent: str = "") -> str:
        """Return the newest records since `clear` as XML.

        Args:
            max_chars: Characters of the text. Hidden records do not count, because the user may
                show them again.
            agent: The name of the agent that gets them, and knows its own cells; empty for a model.
        """
        self.acquire()
        new_records = list(self._records)
        counts = self._counts.copy()
        self.release()
        if agent:
            party = _other_agent(agent)
            new_records = [record for record in new_records if _party(record) != party]
            del counts[party]
        count = counts.total()

        elements: list[str] = []
        max_record_chars = min(MAX_RECORD_CHARS, max_chars // 2)
        remaining_chars = max_chars - len(_omission_note(count)) - 1
        for record in reversed(new_records):
            element = _as_element(record, max_record_chars)
            entry = record.entry_name
            if entry not in self.hidden and not self.hidden.is_private(entry):
                remaining_chars -= len(element) + 1
            if remaining_chars < 0:
                break
            elements.append(element)

        omitted_count = count - len(elements)
        if omitted_count:
            elements.append(_omission_note(omitted_count))
        return "\n".join(reversed(elements))

    def clear(self) -> None:
        """Forget the records, because the model has them."""
        self.acquire()
        self._records.clear()
        self._counts.clear()
        self.release()


def _is_news(record: Record) -> bool:
    """Return whether a model learns something from a record that it does not learn otherwise."""
    # These only say which other records the model gets.
    if isinstance(record, records.Hide | records.Replace | records.Private):
        return False
    if isinstance(record, records.ReplOut) and _says_nothing(record):
        return False
    is_of_other_agent = isinstance(record, records.CellRecord) and record.guest is not None
    if is_of_other_agent:
        return True
    # With the results of the model's own cell, it has learnt what that did to files.
    if isinstance(record, records.FileChanges) and record.turn is not None:
        return False
    return not isinstance(record, _MESSAGES)


def _says_nothing(output: records.ReplOut) -> bool:
    """Return whether an output is that of a cell that ended well, and has printed nothing."""
    return output.status == "ok" and not output.text.strip() and not output.detail


def _for_prompt(record: Record) -> Record:
    """Return a record without what a model does not need, and with an author that it understands."""
    if isinstance(record, records.ReplOut):
        record = record.changed(duration=None, detail=record.detail or None)
    elif isinstance(record, records.FileChanges):
        record = record.changed(changes=())
    if not isinstance(record, records.CellRecord):
        return record

    # The tag of the user's cells says enough; there, "you" would be the model. Another agent's cells
    # have the tag of the model's own.
    if record.guest is None:
        return record.changed(party=None)
    return record.changed(party=_other_agent(record.party or "agent"), guest=None, call=None)


def _as_element(record: Record, max_chars: int) -> str:
    """Return a record as XML, with at most so many characters of its text."""
    is_rewritten = isinstance(record, records.ReplOut) and record.rewritten
    text = escape_output(record.text, rewritten=is_rewritten).rstrip("\n")
    return to_xml(record.changed(text=shorten(text, max_chars)))


def _party(record: Record) -> str | None:
    return getattr(record, "party", None)


def _other_agent(name: str) -> str:
    """Return how a model is told of an agent."""
    return f"{name}, another agent"


def shorten(text: str, limit: int, advice: str = "") -> str:
    """Leave out the middle of a text that has more than `limit` characters.

    Args:
        text: The text.
        limit: Characters of the text that are left, without the note about the others.
        advice: The end of that note, such as how to see the whole text.
    """
    if len(text) <= limit:
        return text
    head_chars = limit * 2 // 3
    tail_start = len(text) - (limit - head_chars)
    note = f"[… {len(text) - limit:,} characters left out{advice} …]"
    return f"{text[:head_chars]}\n{note}\n{text[tail_start:]}"


def _omission_note(count: int) -> str:
    return f"[{count:,} earlier records left out]"
