"""What `mahtab-tui ask` does with a session's records: it prints them, keeps what makes up an
answer, and answers approvals."""

from __future__ import annotations

import contextlib
import logging
import sys
from getpass import getpass

from mahtab_tui.bus import records
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import Decision, Record, get_record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.values import Status
from mahtab_tui.cli.headless import json_line, write_stderr
from mahtab_tui.session import Session
from mahtab_tui.system import start_thread


class EventPrinter(logging.Handler):
    """Prints every event of a session to stdout, as a line of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        print(json_line(get_record(record)), flush=True)


class ProgressPrinter(logging.Handler):
    """Prints the events of a session to stderr, in short. quiet: print only failures."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def emit(self, record: logging.LogRecord) -> None:
        event = get_record(record)
        is_failure = isinstance(event, records.Notice) and event.level == "error"
        if self._quiet and not is_failure:
            return
        if text := _progress_text(event):
            write_stderr(plain(text))


class AnswerCollector(logging.Handler):
    """Keeps what belongs to the answer of one question."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        """Forget the last question."""
        self.failures: list[str] = []
        """The failures that were reported, as sentences."""
        self.uncomputed_figures: list[str] = []
        """Figures of the answer that no code has computed."""
        self.code: list[str] = []
        """The model's cells that ran without an error."""
        self._running_code: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        match get_record(record):
            case records.Notice(level="error") as notice:
                self.failures.append(notice.text)
            case records.AssistantChat() as answer:
                figures = answer.figures or ()
                self.uncomputed_figures = [
                    figure.doubt for figure in figures if not figure.has_source
                ]
            case records.AssistantReplIn() as cell:
                self._running_code[cell.cell] = cell.text
            case records.AssistantReplOut(late=False) as output:
                code = self._running_code.pop(output.cell, None)
                if code is not None and output.status == Status.OK:
                    self.code.append(code)


def _progress_text(record: Record) -> str:
    """Return what stderr shows of a record; empty if nothing."""
    match record:
        case records.ReplIn():
            return "\n".join(f">>> {visible(line)}" for line in record.text.split("\n"))
        case records.ReplOut():
            return record.text.rstrip("\n")
        case records.AssistantTool(state="running"):
            return f"{record.name} {record.arguments}"
        case records.AssistantTool(state="error"):
            return record.text
        # A kernel that did not start has no pid; the failure to answer reports that.
        case records.KernelRecord() if record.pid:
            return record.text
        case records.UserAttachment():
            return f"{record.label}: {record.problem or record.size}"
        case records.Restore():
            return f"mahtab-tui: {record.text}"
        case records.Notice() if record.level != "info":
            return f"mahtab-tui: {record.text}"
    return ""


class Approver(logging.Handler):
    """Answers approvals and `input()` from the terminal.

    Without one, it refuses approvals and ends the input.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.reset()
        self._session = session
        self._terminal = sys.stdin.isatty() and sys.stderr.isatty()

    def reset(self) -> None:
        """Forget the last question."""
        self.refused = False
        """Whether code was not run because nobody could approve it."""
        self.was_stopped = False
        """Whether the user has stopped the question instead of approving code."""

    def emit(self, record: logging.LogRecord) -> None:
        event = get_record(record)
        if isinstance(event, records.Approval | records.Input) and event.state == "waiting":
            # The asking thread starts waiting only after this record, so the answer must come from
            # another thread.
            start_thread("approver", self._answer, event)

    def _answer(self, record: records.Approval | records.Input) -> None:
        if isinstance(record, records.Approval):
            decide = self._ask if self._terminal else self._refuse
            self._session.approvals.answer(record.request, decide(record.text))
        else:
            line = self._read_line(record) if self._terminal else None
            self._session.host.inputs.answer(record.request, line)

    def _read_line(self, record: records.Input) -> str | None:
        """Return what is typed for an `input()` of a cell; None at the end of the input."""
        with contextlib.suppress(EOFError):
            if record.password:
                return getpass(plain(record.text))
            write_stderr(plain(record.text), end="")
            line = sys.stdin.readline()
            return line.removesuffix("\n") if line else None
        return None

    def _refuse(self, code: str) -> Decision:
        """Report code that nobody can approve, and stop the turn."""
        self.refused = True
        self._session.notice(
            f"Not run: no one is here to approve it (--approval auto runs it):\n{visible(code)}",
            "warning",
        )
        # A model whose code is only skipped would try again.
        return Decision("stop")

    def _ask(self, code: str) -> Decision:
        """Show code, and return what the user decides. Any unknown answer stops."""
        choices = "[y]es run it, [n]o skip it, [a]ll from now on, [s]top? "
        write_stderr(f"{visible(code)}\n{choices}", end="")
        letter = sys.stdin.readline().strip().lower()[:1]
        decisions = {"y": Decision("run"), "a": Decision("all"), "n": Decision("skip")}
        decision = decisions.get(letter, Decision("stop"))
        self.was_stopped = decision.action == "stop"
        return decision
