"""What an editor is told of a session: each record becomes updates of the protocol."""

from __future__ import annotations

from collections.abc import Callable

from acp import schema

from mahtab_tui.acp.cell_card import CellCard, text_block
from mahtab_tui.bus import records
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.fences import fenced
from mahtab_tui.bus.records import PICTURES, Record, RecordHandler
from mahtab_tui.bus.values import Status, describe_files

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.UsageUpdate
)
Request = records.Approval | records.Review | records.Input | records.SearchFanOut
"""A record with which the session waits for the user."""
Item = Update | Request | records.SessionRecord
"""What is sent to the editor, a record that asks its user, or one that tells new options."""

MAX_CALL_RESULT_CHARS = 10_000
"""Characters of a tool's result that an editor gets."""
NOT_RUN = "The code did not run."
NOT_ENDED = "The session ended before this did."


class UpdateWriter(RecordHandler):
    """Writes updates about records, also about past ones. The session's threads call it."""

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
        self._cards: dict[str, CellCard] = {}
        """The cells and tool calls, by the ids of their tool calls."""
        self._ids_of_cells: dict[int, str] = {}
        """The ids of the tool calls of cells, by the numbers of the cells."""
        self._printing: set[str] = set()
        """The cells with output that was not sent yet."""
        self._streamed: set[tuple[int | None, int | None]] = set()
        """Answers, by turn and step, of which pieces were sent."""
        self._failures: list[str] = []
        """What has failed since the question began, as sentences."""
        self._thoughts: set[tuple[int | None, int | None]] = set()
        """Answers of whose thinking pieces were sent."""

    def take_progress(self) -> list[Update]:
        """Return an update for each cell that has printed since the last call."""
        self.acquire()  # against `emit`
        try:
            updates: list[Update] = [self._cards[card_id].update() for card_id in self._printing]
            self._printing.clear()
            return updates
        finally:
            self.release()

    @property
    def has_open_cards(self) -> bool:
        """Whether code is being written, or cells may print."""
        return any(not card.is_finished for card in list(self._cards.values()))

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
                    self._finish(card, "failed", NOT_RUN)
                elif self._cost is None and not card.is_finished:
                    self._finish(card, "failed", NOT_ENDED)
        finally:
            self.release()

    def card(self, record: records.Approval) -> CellCard:
        """Return the tool call of code that waits for approval."""
        return self._cards[self._card_id(record)]

    def fold(self, record: Record) -> None:
        """Send what the editor is told of a record."""
        match record:
            case records.UserChat():
                if self._cost is None:
                    self._send(_user_words(record.text))
            case records.AssistantThoughtStream():
                self._thoughts.add((record.turn, record.step))
                self._send(_thought(record.text))
            case records.AssistantThought():
                if (record.turn, record.step) not in self._thoughts:
                    self._send(_thought(record.text))
            case records.AssistantChatStream():
                self._stream_answer(record)
            case records.AssistantChat():
                self._complete_answer(record)
            case records.AssistantTool():
                self._follow_tool(record)
            case records.SearchBegin(parent=None) | records.SearchFinal(node="1"):
                self._follow_search(record)
            case records.Undo():
                self._send(_words(f"{record.text}\n"))
            case records.Notice(level="error") if self._cost is not None:
                self._failures.append(record.text)
            case records.Notice(level="warning" | "error"):
                self._send(_paragraph(record.text))
            case records.Window() if self._cost is not None:
                cost = schema.Cost(amount=self._cost(), currency="USD")
                self._send(
                    schema.UsageUpdate(
                        session_update="usage_update",
                        used=record.tokens,
                        size=record.size,
                        cost=cost,
                    )
                )
            case records.SessionRecord():
                self._send(record)
            case records.Approval():
                self._follow_approval(record)
            case records.Review() | records.Input() | records.SearchFanOut():
                self._ask(record)
            case _:
                self._follow_cell(record)

    def _ask(self, record: Request) -> None:
        if record.state == "waiting" and self._cost is not None:
            self._send(record)

    # Answers

    def _stream_answer(self, record: records.AssistantChatStream) -> None:
        """Send a piece of an answer; code goes into the tool call of its cell."""
        answer = (record.turn, record.step)
        if record.fresh:
            if answer in self._streamed:
                self._send(_words("\n\n(The answer begins again.)\n\n"))
            return
        self._streamed.add(answer)
        if record.kind != "code":
            self._send(_words(record.text))
            return
        card = self._card(f"{record.turn}.{record.step}.{record.block}")
        card.code += record.text
        self._show_soon(card)

    def _complete_answer(self, record: records.AssistantChat) -> None:
        """Send the words of an answer of which no piece came."""
        if (record.turn, record.step) in self._streamed:
            return
        if words := parse_response(record.text).prose:
            self._send(_words(words))

    # Cells

    def _card(self, card_id: str) -> CellCard:
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
        self._printing.discard(card.id)
        self._send(card.update())

    def _show_soon(self, card: CellCard) -> None:
        """Send the card at once if the editor does not know it, else with the next progress."""
        if card.is_announced:
            self._printing.add(card.id)
        else:
            self._show(card)

    def _finish(self, card: CellCard, status: str, note: str = "") -> None:
        card.status = "completed" if status == Status.OK else "failed"
        if note:
            card.notes.append(note)
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
            self._finish(card, "failed", " ".join(filter(None, (NOT_RUN, record.reason))))
        elif record.is_code is False:
            self._finish(card, Status.OK)

    def _follow_cell(self, record: Record) -> None:
        if isinstance(record, records.ReplIn):
            card = self._card(self._card_id(record))
            card.code = record.text
            card.status = "in_progress"
            if record.cell is not None:
                self._ids_of_cells[record.cell] = card.id
                card.title = f"In {record.cell}: {record.text.strip().partition(chr(10))[0]}"
            self._show(card)
            return
        cell = getattr(record, "cell", None)
        card_id = self._ids_of_cells.get(cell or 0)
        if card_id is None:
            return
        card = self._cards[card_id]
        match record:
            case records.ReplOutStream():
                card.add_output(record.text)
                self._show_soon(card)
            case records.ReplOut(late=False):
                card.replace_output(record.text)
                self._finish(card, record.status or Status.OK, record.detail or "")
            case records.ReplOut():
                card.add_output(record.text)
                self._show(card)
            case records.DisplayRecord() if record.mime in PICTURES:
                card.add_picture(record.mime, record.data)
                self._show_soon(card)
            case records.Namespace(restored=False):
                if record.changes:
                    self._add_note(card, format_changes(record.changes))
            case records.FileChanges():
                self._add_note(card, describe_files(record.changes))

    def _add_note(self, card: CellCard, note: str) -> None:
        card.notes.append(note)
        self._show(card)

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
            status = Status.OK if record.state == "ok" else "failed"
            self._finish(card, status, fenced(result, "text") if result else "")

    def _follow_search(self, record: records.SearchBegin | records.SearchFinal) -> None:
        card = self._card(f"search-{record.tree}")
        card.kind = "search"
        if isinstance(record, records.SearchBegin):
            card.title = record.text
            card.status = "in_progress"
            self._show(card)
        else:
            status = "failed" if record.state in ("error", "stopped") else Status.OK
            self._finish(card, status, record.text)


def _words(text: str) -> schema.AgentMessageChunk:
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=text_block(text))


def _paragraph(text: str) -> schema.AgentMessageChunk:
    return _words(f"\n\n{text}\n\n")


def _thought(text: str) -> schema.AgentThoughtChunk:
    return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=text_block(text))


def _user_words(text: str) -> schema.UserMessageChunk:
    return schema.UserMessageChunk(session_update="user_message_chunk", content=text_block(text))
