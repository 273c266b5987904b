"""``mahtab-tui ask``: one question without a screen. The answer goes to stdout, everything else to
stderr."""

from __future__ import annotations

import json
import logging
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence

from mahtab_tui.bus import codec, records
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.records import Record, record_of
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Status
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel_factory import process_kernel
from mahtab_tui.session.loading import DataFile
from mahtab_tui.settings.model import Settings
from mahtab_tui.system.processes import exit_by_signal

ANSWERED, FAILED, REFUSED, INTERRUPTED = 0, 1, 3, 130

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LAST_WORDS = 2.0
"""Seconds for ending the session's processes after a signal."""
_NO_REVIEW = "Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."
_REFUSAL = (
    "Nobody can approve code, because the question was asked without a screen. Answer in words."
)


class RecordPrinter(logging.Handler):
    """Prints the records of the bus as they come."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self.failures: set[str] = set()
        """The errors that were printed."""
        self.uncomputed: list[str] = []
        """The figures of the last answer that were computed nowhere."""

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if isinstance(value, records.Notice) and value.level == "error":
            self.failures.add(value.text)
        if isinstance(value, records.AssistantChat):
            self.uncomputed = [figure.text for figure in value.figures or () if not figure.found]
        if self._as_json:
            print(json.dumps(codec.as_json(value.changed(time=round(value.time, 3)))), flush=True)
        elif text := _for_stderr(value):
            print(plain(text), file=sys.stderr, flush=True)


def _for_stderr(record: Record) -> str:
    """Return what stderr shows of a record; empty for nothing."""
    match record:
        case records.ReplIn():
            return "\n".join(f">>> {visible(line)}" for line in record.text.split("\n"))
        case records.ReplOut():
            return record.text.rstrip("\n")
        case records.AssistantTool(state="running"):
            return f"{record.name} {record.arguments}"
        case records.AssistantTool(state="error"):
            return record.text
        case records.Kernel() if (
            record.pid
        ):  # a kernel that did not start has no pid; the failure to answer reports that
            return record.text
        case records.UserAttachment():
            return f"{record.label}: {record.problem or record.size}"
        case records.Notice() if record.level != "info":
            return f"mahtab-tui: {record.text}"
    return ""


class Approver(logging.Handler):
    """Answers approvals and `input()`: asks at the terminal; without one it refuses, and gives the
    end of the input."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.refused = False
        self._session = session
        self._terminal = sys.stdin.isatty() and sys.stderr.isatty()

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if isinstance(value, records.Approval) and value.state == "waiting":
            # The asking thread waits only after this record, so the answer comes from another one.
            threading.Thread(target=self._answer, args=(value,), daemon=True).start()
        elif isinstance(value, records.Input) and value.state == "waiting":
            threading.Thread(target=self._give_line, args=(value,), daemon=True).start()

    def _give_line(self, record: records.Input) -> None:
        self._session.answer_input(
            record.request, self._read_line(record) if self._terminal else None
        )

    def _read_line(self, record: records.Input) -> str | None:
        """Read a line from the terminal; None at the end of the input."""
        prompt = plain(record.text)
        if record.password:
            from getpass import getpass

            try:
                return getpass(prompt)
            except EOFError:
                return None
        print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None

    def _answer(self, record: records.Approval) -> None:
        decision = self._ask(record.text) if self._terminal else self._refuse(record.text)
        self._session.decide(record.request, decision)

    def _refuse(self, code: str) -> Decision:
        self.refused = True
        self._session.notice(
            f"Not run: no one is here to approve it (--approval auto runs it):\n{visible(code)}",
            "warning",
        )
        return Decision("skip", reason=_REFUSAL)

    def _ask(self, code: str) -> Decision:
        print(
            visible(code),
            "[y]es run it, [n]o skip it, [a]ll from now on, [s]top? ",
            sep="\n",
            end="",
            file=sys.stderr,
            flush=True,
        )
        letter = sys.stdin.readline().strip().lower()[:1]
        return {"y": Decision("run"), "a": Decision("all"), "n": Decision("skip")}.get(
            letter, Decision("stop")
        )


def ask_once(question: str, settings: Settings, files: Sequence[DataFile], *, as_json: bool) -> int:
    """Ask, print the answer, and return the exit code."""
    session = Session(settings, process_kernel(settings), HeadlessFrontend())
    approver, printer = Approver(session), RecordPrinter(as_json=as_json)
    session.log.addHandler(printer)
    session.log.addHandler(approver)
    if settings.approval == "review":
        session.set_approval("ask")
        session.notice(_NO_REVIEW, "warning")
    stopped_by: list[int] = []

    def stop(signum: int, frame: object) -> None:
        stopped_by.append(signum)
        if (
            signum != signal.SIGINT
        ):  # the program ends soon even if the running cell cannot be stopped
            last = threading.Timer(_LAST_WORDS, exit_by_signal, (signum,))
            last.daemon = True
            last.start()
        session.stop()

    ignored = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    ]  # as by nohup
    before = {number: signal.signal(number, stop) for number in _STOPPING if number not in ignored}
    try:
        session.start_kernel()
        if not (_load_stdin(session) and all(session.load(file) for file in files)):
            return FAILED
        answer = session.agent.ask(question, attach="files and variables")
    except (KernelError, ModelError) as error:
        if not as_json and str(error) not in printer.failures:
            print(plain(session.secrets.mask(f"mahtab-tui: {error}")), file=sys.stderr)
        return FAILED
    finally:
        session.close()
        for number, handler in before.items():
            signal.signal(number, handler)
        if ending := [number for number in stopped_by if number != signal.SIGINT]:
            exit_by_signal(ending[0])
    if stopped_by:
        return INTERRUPTED
    if not as_json:
        _print_answer(session.secrets.mask(answer), printer.uncomputed)
    return REFUSED if approver.refused else ANSWERED


def _print_answer(answer: str, uncomputed: Sequence[str]) -> None:
    """Print the answer, rendered if stdout is a terminal, and name the figures in it that were
    computed nowhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        # Show addresses as text: a link's text may differ from where it leads.
        Console().print(Markdown(plain(answer), hyperlinks=False))
    else:
        print(plain(answer), flush=True)
    if uncomputed:
        print(one_line(f"mahtab-tui: not computed: {', '.join(uncomputed)}"), file=sys.stderr)


def _load_stdin(session: Session) -> bool:
    """Load what is piped in as `stdin_text`."""
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    if not data:
        return True
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(data)
        file.flush()
        code = f"stdin_text = open({file.name!r}, encoding='utf-8', errors='replace').read()"
        return session.cells.run(code).status is Status.OK
