"""Asks the user what the session waits for, with numbered choices.

A session waits for the approval of code, for the review of changes, for a line that a cell reads, and
for the permission to make many calls at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
"""At most this many of the hidden characters in code are named."""
MAX_CHOICE_DIGITS = 2
"""A longer number is not that of a choice."""


class Choice(NamedTuple):
    """An answer to a question."""

    action: str
    """Identifies the answer among those to the same question."""
    text: str
    """The answer as the user reads it."""


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
        """Ask what a request is about, and pass the answer on.

        Raises:
            KeyboardInterrupt: The user gives no answer, so the request goes on waiting.
        """
        match request:
            case records.Approval():
                decision = self._ask_to_run(request)
                self._session.approvals.answer(request.request, decision)
            case records.Review():
                decision = self._ask_to_keep(request)
                self._session.approvals.answer(request.request, decision)
            case records.Input():
                self._ask_for_line(request)
            case records.SearchFanOut():
                self._ask_for_calls(request)

    def choose(self, choices: Sequence[Choice]) -> str:
        """Let the user choose by a number, and return the action of the choice.

        Args:
            choices: The answers. Enter alone, and the end of the input, choose the first.
        """
        for number, choice in enumerate(choices, 1):
            default = " (Enter)" if number == 1 else ""
            self._writer.write_line(f"  {number} {choice.text}{default}")
        prompt = f"1 to {len(choices)}: "
        while True:
            typed = (self._read(prompt) or "").strip()
            if not typed:
                return choices[0].action
            is_number = typed.isdecimal() and len(typed) <= MAX_CHOICE_DIGITS
            if is_number and 1 <= int(typed) <= len(choices):
                return choices[int(typed) - 1].action
            self._writer.write_line(f"Type a number from 1 to {len(choices)}.")

    def confirm(self, question: str, *, yes: str, no: str) -> bool:
        """Ask a question that is answered by yes or no.

        Args:
            question: The question.
            yes: What happens after a yes, as the user reads it.
            no: What happens after a no, which Enter alone chooses.

        Raises:
            Unanswered: The user has pressed Ctrl+C.
        """
        self._writer.write_line(question)
        try:
            return self.choose((Choice("no", no), Choice("yes", yes))) == "yes"
        except KeyboardInterrupt:
            raise Unanswered from None

    def _ask_to_run(self, request: records.Approval) -> Decision:
        """Show all of the code, and ask whether it may run."""
        author = one_line(request.party or "the model")
        choices: Sequence[Choice] = _CODE_CHOICES
        if request.is_code is False:
            choices = _ACTION_CHOICES
            self._writer.write_line(f"May {author} do this?", "highlight")
            self._writer.write_line(request.text)
        else:
            if not self._prompt.can_edit:
                choices = [choice for choice in _CODE_CHOICES if choice is not _EDIT]
            self._show_code(request, f"Run this code of {author}?")
        self._write_warnings(request)

        action = self.choose(choices)
        if action == "reason":
            reason = self._read("Why not? ")
            return Decision("skip", reason=(reason or "").strip())
        if action == "edit":
            return self._edit(request)
        return _DECISIONS.get(action, Decision("skip"))

    def _show_code(self, request: records.Approval, question: str) -> None:
        """Write a question, and the code that it is about unless this stands above."""
        stands_above = self._printer.answers.stands_above(request)
        self._writer.write_line(question, "highlight")
        if not stands_above:
            self._writer.write_code(request.text)
            self._printer.answers.note_code(request, request.text)

    def _edit(self, request: records.Approval) -> Decision:
        """Let the user change code, which runs as it is entered.

        A question instead of code is the reason not to run it.
        """
        try:
            with self._code_in_prompt(clean(request.text)):
                typed = self._prompt.read_input(self._session.cells.last + 1)
        except EOFError:
            return Decision("skip")
        if typed.mode == "ask":
            return Decision("skip", reason=typed.text.strip())
        self._printer.answers.note_code(request, typed.text)
        return Decision("run", typed.text) if typed.text.strip() else Decision("skip")

    @contextmanager
    def _code_in_prompt(self, code: str) -> Iterator[None]:
        """Let the prompt begin with code; afterwards, its mode and its draft are as they were before.

        If the user goes to the full screen, what has been edited goes along.
        """
        mode = self._prompt.mode
        draft = self._prompt.draft
        self._prompt.mode = "python"
        self._prompt.draft = code
        try:
            yield
        except FullScreenWanted:
            mode = self._prompt.mode
            edited_code = self._prompt.draft
            draft = "\n".join(text for text in (edited_code, draft) if text)
            raise
        finally:
            self._prompt.mode = mode
            self._prompt.draft = draft

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

    def _ask_for_line(self, request: records.Input) -> None:
        """Let the user type a line for an `input()` of a cell. At the end of the input there is none."""
        prompt_start, newline, prompt = plain(request.text).rpartition("\n")
        if newline:
            self._writer.write_line(prompt_start)
        line = self._read(prompt, is_hidden=bool(request.password))
        visible_line = "" if request.password else line or ""
        self._printer.expect_echo(request.cell, f"{request.text}{visible_line}\n")
        self._session.host.inputs.answer(request.request, line)

    def _ask_for_calls(self, request: records.SearchFanOut) -> None:
        """Ask whether a search may make many calls at once."""
        self._writer.write_line(f"A search wants to make {describe_fan_out(request)}.")
        is_allowed = self.choose(_FAN_OUT_CHOICES) == "run"
        self._session.searches.answer(request.request, is_allowed)

    def _read(self, label: str, *, is_hidden: bool = False) -> str | None:
        """Return a line; None at the end of the input."""
        self._writer.end_line()
        try:
            return self._prompt.read_answer(label, is_hidden=is_hidden)
        except EOFError:
            return None
