"""Asks the user what the session waits for, with numbered choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.change_lines import change_lines
from mahtab_tui.bus.hidden_characters import symbols
from mahtab_tui.bus.records import Decision
from mahtab_tui.bus.request_words import describe_fan_out, review_question
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.search_tools import find_search_tools
from mahtab_tui.bus.typed_text import clean
from mahtab_tui.linear.line_writer import LineWriter
from mahtab_tui.linear.prompts import FullScreenWanted, Prompt
from mahtab_tui.linear.record_printer import RecordPrinter, Request
from mahtab_tui.session import Session

MAX_HIDDEN_SYMBOLS = 3


class Choice(NamedTuple):
    """An answer to a question."""

    action: str
    text: str


_SKIP = Choice("skip", "Do not run it")
_SKIP_WITH_REASON = Choice("reason", "Do not run it, and say why")
_RUN = Choice("run", "Run it")
_EDIT = Choice("edit", "Edit it, then run it")
_RUN_ALL = Choice("all", "Run it, and all code from now on")
_STOP = Choice("stop", "Do not run it, and stop the answer")
_CODE_CHOICES = (_SKIP, _SKIP_WITH_REASON, _RUN, _RUN_ALL, _STOP, _EDIT)
_ACTION_CHOICES = (_SKIP, _SKIP_WITH_REASON, _RUN, _STOP)
_REVIEW_CHOICES = (
    Choice("stop", "Keep the changes, and stop the answer"),
    Choice("keep", "Keep the changes"),
    Choice("undo", "Undo them"),
    Choice("all", "Keep these and all from now on"),
)
_DECISIONS = {"run": Decision("run"), "all": Decision("all"), "stop": Decision("stop")}
_FAN_OUT_CHOICES = (Choice("refuse", "Do not make them"), Choice("run", "Make them"))


class Unanswered(KeyboardInterrupt):
    """The user has pressed Ctrl+C instead of answering a question."""


class Questions:
    """Asks the user on the main thread, and passes the answers on."""

    def __init__(
        self, session: Session, writer: LineWriter, printer: RecordPrinter, prompt: Prompt
    ) -> None:
        self._session = session
        self._prompt = prompt
        self._writer = writer
        self._printer = printer

    def ask(self, request: Request) -> None:
        """Ask what a request is about, and answer it. Raises `KeyboardInterrupt`, and leaves it without
        an answer."""
        match request:
            case records.Approval():
                self._answer(request, self._ask_to_run(request))
            case records.Review():
                self._answer(request, self._ask_to_keep(request))
            case records.Input():
                line = self._read_input(request)
                shown_line = "" if request.password else line or ""
                self._printer.expect_echo(request.cell, f"{request.text}{shown_line}\n")
                self._session.host.inputs.answer(request.request, line)
            case records.SearchFanOut():
                self._writer.write_line(f"A search wants to make {describe_fan_out(request)}.")
                is_allowed = self.choose(_FAN_OUT_CHOICES) == "run"
                self._session.searches.answer(request.request, is_allowed)

    def choose(self, choices: Sequence[Choice]) -> str:
        """Let the user choose by a number, and return the action. Enter alone, and the end of the
        input, choose the first."""
        for number, choice in enumerate(choices, 1):
            default = " (Enter)" if number == 1 else ""
            self._writer.write_line(f"  {number} {choice.text}{default}")
        prompt = f"1 to {len(choices)}: "
        while True:
            typed = self._read(prompt)
            if typed is None or not typed.strip():
                return choices[0].action
            word = typed.strip()
            if word.isdecimal() and len(word) < 3 and 1 <= int(word) <= len(choices):
                return choices[int(word) - 1].action
            self._writer.write_line(f"Type a number from 1 to {len(choices)}.")

    def confirm(self, question: str, *, yes: str, no: str) -> bool:
        """Ask a question; Enter alone answers "no". Raises `Unanswered`."""
        self._writer.write_line(question)
        try:
            return self.choose((Choice("no", no), Choice("yes", yes))) == "yes"
        except KeyboardInterrupt:
            raise Unanswered from None

    def _answer(self, request: records.Approval | records.Review, decision: Decision) -> None:
        self._session.approvals.answer(request.request, decision)

    def _ask_to_run(self, request: records.Approval) -> Decision:
        """Show all of the code, and ask whether it may run."""
        is_code = request.is_code is not False
        author = one_line(request.party or "the model")
        stands_above = is_code and self._printer.has_written(request)
        question = f"Run this code of {author}?" if is_code else f"May {author} do this?"
        self._writer.write_line(question, "highlight")
        if not is_code:
            self._writer.write_line(request.text)
        elif not stands_above:
            self._writer.write_code(request.text)
            self._printer.note_code(request, request.text)
        self._write_warnings(request)

        code_choices = [
            choice for choice in _CODE_CHOICES if choice is not _EDIT or self._prompt.can_edit
        ]
        action = self.choose(code_choices if is_code else _ACTION_CHOICES)
        if action == "reason":
            reason = self._read("Why not? ")
            return Decision("skip", reason=(reason or "").strip())
        if action == "edit":
            return self._edit(request)
        return _DECISIONS.get(action, Decision("skip"))

    def _edit(self, request: records.Approval) -> Decision:
        """Let the user change code; it runs as it is entered. A question instead of code is the reason
        not to run it. Afterwards, mode and draft are as they were before."""
        mode = self._prompt.mode
        draft = self._prompt.draft
        self._prompt.mode = "python"
        self._prompt.draft = clean(request.text)
        try:
            typed = self._prompt.read_input(self._session.cells.last + 1)
        except EOFError:
            return Decision("skip")
        except FullScreenWanted:
            # What has been edited goes along, with what was typed before the question.
            mode = self._prompt.mode
            draft = "\n".join(filter(None, (self._prompt.draft, draft)))
            raise
        finally:
            self._prompt.mode = mode
            self._prompt.draft = draft
        if typed.mode == "ask":
            return Decision("skip", reason=typed.text.strip())
        self._printer.note_code(request, typed.text)
        return Decision("run", typed.text) if typed.text.strip() else Decision("skip")

    def _write_warnings(self, request: records.Approval) -> None:
        """Write what the user should know before the code runs."""
        if (request.blocks or 0) > 1 and request.block is not None:
            position = f"This is block {request.block + 1} of {request.blocks} of the answer."
            self._writer.write_line(position, "muted")
        if request.why:
            self._writer.write_line(f"It asks before it runs: {one_line(request.why)}", "muted")
        tools = find_search_tools(request.text)
        if tools:
            text = f"The search may call {one_line(tools)} without asking again."
            self._writer.write_line(text, "highlight")
        hidden_symbols = sorted(symbols(request.text))[:MAX_HIDDEN_SYMBOLS]
        if hidden_symbols:
            text = f"It contains hidden characters: {' '.join(hidden_symbols)}"
            self._writer.write_line(text, "bad")

    def _ask_to_keep(self, request: records.Review) -> Decision:
        """Show what cells have changed, and ask whether it stays."""
        self._writer.write_line(review_question(request), "highlight")
        lines = change_lines(request.changes, request.not_restored, request.files)
        self._writer.write_changes(lines)
        action = self.choose(_REVIEW_CHOICES)
        if action == "undo":
            reason = self._read("Why? (Enter for no reason) ")
            return Decision("undo", reason=(reason or "").strip())
        if action == "keep":
            return Decision("keep")
        return Decision("all" if action == "all" else "stop")

    def _read_input(self, request: records.Input) -> str | None:
        """Return what the user types for an `input()` of a cell; None at the end of the input."""
        prompt_start, newline, prompt = plain(request.text).rpartition("\n")
        if newline:
            self._writer.write_line(prompt_start)
        return self._read(prompt, is_hidden=bool(request.password))

    def _read(self, label: str, *, is_hidden: bool = False) -> str | None:
        """Return a line; None at the end of the input."""
        self._writer.end_line()
        try:
            return self._prompt.read_answer(label, is_hidden=is_hidden)
        except EOFError:
            return None
