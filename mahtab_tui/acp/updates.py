"""What an editor is told of a session: each record becomes updates of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.acp.cell_card import CellCard, CellPicture
from mahtab_tui.acp.protocol import Update, thought, tool_call, usage, user_words, words
from mahtab_tui.bus import records
from mahtab_tui.bus.answers import answer_prose
from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.fences import fenced
from mahtab_tui.bus.records import PICTURE_MIMES, Record, RecordHandler
from mahtab_tui.bus.values import Status, describe_files

Request = records.Approval | records.Review | records.Input | records.SearchFanOut
"""A record with which the session waits for the user."""
Item = Update | Request | records.SessionRecord | None
"""What is sent to the editor, a record that asks its user, or one that tells new options; None for
what cells have printed."""

PROGRESS_INTERVAL_S = 0.2
"""Seconds between two updates of a cell that prints."""
END_INTERVAL_S = 1.0
"""Seconds that a cell's end waits for what the cell has changed, if nothing else comes after it."""
MAX_CALL_RESULT_CHARS = 10_000
"""Characters of a tool's result that an editor gets."""
NOT_RUN = "The code did not run."
NOT_ENDED = "The session ended before this did."


class _AnswerId(NamedTuple):
    """Which answer of the model a record belongs to."""

    turn: int | None
    """The number of the question."""
    step: int | None
    """The number of the answer within the turn."""


class UpdateWriter(RecordHandler):
    """Writes updates about records: of a session that goes on, or of its past.

    The session's threads call it.
    """

    kinds = (
        records.UserChat,
        records.AssistantChatStream,
        records.AssistantChat,
        records.AssistantThoughtStream,
        records.AssistantThought,
        records.AssistantTool,
        records.ReplIn,
        records.ReplOutStream,
        records.ReplOut,
        records.DisplayRecord,
        records.Namespace,
        records.FileChanges,
        records.Undo,
        records.Approval,
        records.Review,
        records.Input,
        records.SearchBegin,
        records.SearchFinal,
        records.SearchFanOut,
        records.Notice,
        records.Window,
        records.SessionRecord,
    )

    def __init__(
        self,
        send: Callable[[Item], None],
        *,
        cost: Callable[[], float] | None = None,
    ) -> None:
        """Take records from now on.

        Args:
            send: Gets each update, and each record that the editor is asked or told about, in
                order.
            cost: Returns what the session has cost, in US dollars; None for past records, whose
                requests are answered already.
        """
        super().__init__()
        self._send = send
        self._cost = cost
        self._is_past = cost is None
        """Whether the records are those of the past, about which nobody is asked."""
        self._cards: dict[str, CellCard] = {}
        """The cells and tool calls, by the ids of their tool calls."""
        self._card_ids_by_cell: dict[int, str] = {}
        """The ids of the tool calls of cells, by the numbers of the cells."""
        self._unsent_ids: dict[str, None] = {}
        """The ids of the tool calls that have changed since they were sent, in order."""
        self._streamed_answers: set[_AnswerId] = set()
        """The answers whose words or code were sent in pieces."""
        self._streamed_thoughts: set[_AnswerId] = set()
        """The answers whose thinking was sent in pieces."""
        self._failures: list[str] = []
        """What has failed since the question began, as sentences."""

    def take_progress(self) -> list[Update]:
        """Return an update for each cell and tool call that has changed since it was sent."""
        self.acquire()  # against `emit`
        try:
            updates = [tool_call(self._cards[card_id]) for card_id in self._unsent_ids]
            self._unsent_ids.clear()
            return updates
        finally:
            self.release()

    @property
    def progress_interval_s(self) -> float | None:
        """Seconds until progress is due; None if there will be none."""
        if any(not card.is_finished for card in list(self._cards.values())):
            return PROGRESS_INTERVAL_S
        return END_INTERVAL_S if self._unsent_ids else None

    def end_turn(self, error: str = "") -> None:
        """Say what has failed, and close the tool calls of code that was written, but did not run;
        of past records, all.

        Args:
            error: What the editor is told in another way.
        """
        self.acquire()
        try:
            for failure in self._failures:
                if failure != error:
                    self._send(_paragraph(failure))
            self._failures.clear()
            for card in self._cards.values():
                if card.status == "pending":
                    self._finish(card, NOT_RUN, succeeded=False)
                elif self._is_past and not card.is_finished:
                    self._finish(card, NOT_ENDED, succeeded=False)
        finally:
            self.release()

    def card(self, record: records.Approval) -> CellCard:
        """Return the tool call of code that waits for approval."""
        return self._cards[self._card_id(record)]

    def fold(self, record: Record) -> None:
        """Send what the editor is told of a record."""
        # What a cell has changed comes right after its end, and in the same update. What threads
        # print after it goes on however slowly the editor reads.
        if not isinstance(record, records.Namespace | records.FileChanges | records.ReplOut):
            self._show_finished()
        match record:
            case records.UserChat():
                # The editor itself shows what its user asks now.
                if self._is_past:
                    self._send(user_words(record.text))
            case records.AssistantThoughtStream():
                self._streamed_thoughts.add(_AnswerId(record.turn, record.step))
                self._send(thought(record.text))
            case records.AssistantThought():
                if _AnswerId(record.turn, record.step) not in self._streamed_thoughts:
                    self._send(thought(record.text))
            case records.AssistantChatStream():
                self._stream_answer(record)
            case records.AssistantChat():
                self._complete_answer(record)
            case records.AssistantTool():
                self._follow_tool(record)
            case records.SearchBegin(parent=None) | records.SearchFinal(node="1"):
                self._follow_search(record)
            case records.Undo():
                self._send(words(f"{record.text}\n"))
            case records.Notice(level="error") if not self._is_past:
                self._failures.append(record.text)
            case records.Notice(level="warning" | "error"):
                self._send(_paragraph(record.text))
            case records.Window() if self._cost is not None:
                self._send(usage(record.tokens, record.size, self._cost()))
            case records.SessionRecord():
                self._send(record)
            case records.Approval():
                self._follow_approval(record)
            case records.Review() | records.Input() | records.SearchFanOut():
                self._ask(record)
            case _:
                self._follow_cell(record)

    def _ask(self, record: Request) -> None:
        """Have the user asked, if the session waits for the answer."""
        if record.state == "waiting" and not self._is_past:
            self._send(record)

    # Answers

    def _stream_answer(self, record: records.AssistantChatStream) -> None:
        """Send a piece of an answer; code goes into the tool call of its cell."""
        answer = _AnswerId(record.turn, record.step)
        if record.fresh:
            if answer in self._streamed_answers:
                self._send(_paragraph("(The answer begins again.)"))
            return
        self._streamed_answers.add(answer)
        if record.kind != "code":
            self._send(words(record.text))
            return
        card = self._card(f"{record.turn}.{record.step}.{record.block}")
        card.code += record.text
        self._show_soon(card)

    def _complete_answer(self, record: records.AssistantChat) -> None:
        """Send the words of an answer, unless they came in pieces."""
        if _AnswerId(record.turn, record.step) in self._streamed_answers:
            return
        if prose := answer_prose(record):
            self._send(words(prose))

    # Cells

    def _card(self, card_id: str) -> CellCard:
        """Return the tool call with an id; a new one if there is none."""
        return self._cards.setdefault(card_id, CellCard(card_id))

    def _card_id(self, record: records.CellRecord | records.Approval) -> str:
        """Return the id of the tool call for code, which approval and cell have in common."""
        if record.block is not None:
            return f"{record.turn}.{record.step}.{record.block}"
        if record.call is not None:
            return f"call-{record.call}"
        if isinstance(record, records.Approval):
            return f"request-{record.request}"
        return f"cell-{record.cell}"

    def _show(self, card: CellCard) -> None:
        """Send a tool call as it is now."""
        self._unsent_ids.pop(card.id, None)
        self._send(tool_call(card))

    def _show_soon(self, card: CellCard) -> None:
        """Send the card at once if the editor does not know it, else with the next progress."""
        if card.is_announced:
            self._unsent_ids[card.id] = None
        else:
            self._show(card)

    def _show_finished(self) -> None:
        """Send the tool calls that have ended, and have changed since they were sent."""
        for card_id in list(self._unsent_ids):
            card = self._cards[card_id]
            if card.is_finished:
                self._show(card)

    def _finish(self, card: CellCard, note: str = "", *, succeeded: bool) -> None:
        """End a tool call, and send it.

        Args:
            card: The tool call.
            note: A line about its end; may be empty.
            succeeded: Whether it has not failed.
        """
        card.finish(succeeded, note)
        self._show(card)

    def _follow_approval(self, record: records.Approval) -> None:
        """Show code that waits, was skipped or was refused."""
        card = self._card(self._card_id(record))
        if record.is_code is False:
            card.title = record.text.removeprefix("# ")
            card.kind = "other"
        else:
            card.code = record.text
        if record.state == "waiting":
            self._show(card)
            self._ask(record)
        elif record.state in ("skipped", "stopped", "refused"):
            note = f"{NOT_RUN} {record.reason}" if record.reason else NOT_RUN
            self._finish(card, note, succeeded=False)
        elif record.is_code is False:
            self._finish(card, succeeded=True)

    def _follow_cell(self, record: Record) -> None:
        """Show the code of a cell, or what came of it."""
        if isinstance(record, records.ReplIn):
            self._start_cell(record)
            return
        cell = getattr(record, "cell", None)
        card_id = self._card_ids_by_cell.get(cell or 0)
        if card_id is not None:
            self._update_cell(self._cards[card_id], record)

    def _start_cell(self, record: records.ReplIn) -> None:
        card = self._card(self._card_id(record))
        card.code = record.text
        card.status = "in_progress"
        if record.cell is not None:
            self._card_ids_by_cell[record.cell] = card.id
            first_line = record.text.strip().partition("\n")[0]
            card.title = f"In {record.cell}: {first_line}"
        self._show(card)

    def _update_cell(self, card: CellCard, record: Record) -> None:
        """Add to a cell's tool call what a record says about the cell."""
        match record:
            case records.ReplOutStream():
                card.add_output(record.text)
            case records.ReplOut(late=False):
                card.replace_output(record.text)
                card.finish((record.status or Status.OK) == Status.OK, record.detail or "")
            case records.ReplOut():
                card.add_output(record.text)
                # After the cell's end, no other update may come with which this would be sent.
                if not self._unsent_ids:
                    self._send(None)
            case records.DisplayRecord(action="clear"):
                card.clear_output()
            case records.DisplayRecord() if record.mime in PICTURE_MIMES:
                card.add_picture(CellPicture(record.mime, record.data, record.name))
            case records.Namespace(restored=False) if record.changes:
                card.notes.append(format_changes(record.changes))
            case records.FileChanges():
                card.notes.append(describe_files(record.changes))
            case _:
                return
        self._show_soon(card)

    # Tools and searches

    def _follow_tool(self, record: records.AssistantTool) -> None:
        card = self._card(f"tool-{record.call}")
        card.kind = "other"
        card.title = record.name
        if record.state == "running":
            card.status = "in_progress"
            card.notes = [fenced(record.arguments, "json")]
            self._show(card)
        else:
            result = record.text[:MAX_CALL_RESULT_CHARS]
            note = fenced(result, "text") if result else ""
            self._finish(card, note, succeeded=record.state == "ok")

    def _follow_search(self, record: records.SearchBegin | records.SearchFinal) -> None:
        card = self._card(f"search-{record.tree}")
        card.kind = "search"
        if isinstance(record, records.SearchBegin):
            card.title = record.text
            card.status = "in_progress"
            self._show(card)
        else:
            self._finish(card, record.text, succeeded=record.state not in ("error", "stopped"))


def _paragraph(text: str) -> Update:
    return words(f"\n\n{text}\n\n")
