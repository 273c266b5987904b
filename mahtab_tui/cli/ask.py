"""``mahtab-tui ask``: one question without a screen."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from getpass import getpass
from typing import Annotated

import typer

from mahtab_tui.bus import records
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import Decision, Record, get_record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.values import Status
from mahtab_tui.cli.headless import (
    ANSWERED_CODE,
    FAILED_CODE,
    INTERRUPTED_CODE,
    REFUSED_CODE,
    json_line,
    write_stderr,
)
from mahtab_tui.cli.options import (
    Approval,
    Assignments,
    CodeDir,
    Json,
    KernelAddress,
    Load,
    MaxUsd,
    Model,
    Python,
    SkillsDir,
    checked_settings,
    fail,
    fail_on,
    open_paths,
    warn,
)
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.session.loading import DataFile
from mahtab_tui.settings.model import Settings
from mahtab_tui.system import exit_by_signal, start_thread

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_DELAY_S = 2.0
"""How long a signal waits for the running cell before it ends the program."""
REVIEW_NOTICE = "Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."


class RecordPrinter(logging.Handler):
    """Prints the events of a session: as JSON to stdout, or in short to stderr.

    It keeps what the caller needs when the answer is there: the `failures` that it has reported,
    and the `uncomputed` figures of the answer.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self.failures: set[str] = set()
        self.uncomputed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        event = get_record(record)
        if isinstance(event, records.Notice) and event.level == "error":
            self.failures.add(event.text)
        if isinstance(event, records.AssistantChat):
            self.uncomputed = [figure.doubt for figure in event.figures or () if not figure.found]

        if self._as_json:
            print(json_line(event), flush=True)
        elif text := _progress_text(event):
            write_stderr(plain(text))


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
        case records.Notice() if record.level != "info":
            return f"mahtab-tui: {record.text}"
    return ""


class Approver(logging.Handler):
    """Answers approvals and `input()` from the terminal. Without one, it refuses approvals and ends
    the input."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.refused = False
        """Whether code was not run because nobody could approve it."""
        self._session = session
        self._terminal = sys.stdin.isatty() and sys.stderr.isatty()

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
        return decisions.get(letter, Decision("stop"))


def ask(
    question: Annotated[str, typer.Argument(help="The question")],
    model: Model = None,
    approval: Approval = None,
    python: Python = None,
    kernel: KernelAddress = None,
    load: Load = None,
    skills_dir: SkillsDir = None,
    code_dir: CodeDir = None,
    max_usd: MaxUsd = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Ask without a screen: the answer goes to stdout, code and output to stderr.

    Piped input becomes the variable stdin_text. Exit codes: 0 answered, 1 the model or the kernel
    failed, 2 wrong arguments, 3 code was refused because nobody could approve it (give --approval
    auto), 130 interrupted.
    """
    if not question.strip():
        fail('Give a question: mahtab-tui ask "question".')
    files = open_paths(load)
    settings = checked_settings(
        ("model",),
        assignments,
        model=model,
        approval=approval,
        python=python,
        kernel=kernel,
        skills_dir=skills_dir or None,
        code_dir=code_dir,
        max_usd=max_usd,
    )
    raise typer.Exit(ask_once(question, settings, files, as_json=json))


def ask_once(question: str, settings: Settings, files: Sequence[DataFile], *, as_json: bool) -> int:
    """Ask, print the answer, and return the exit code.

    Args:
        question: The question.
        settings: Those of the model and the kernel.
        files: Files to load as variables first.
        as_json: Print every event instead of the answer.
    """
    with fail_on(KernelError):
        kernel = process_kernel(settings)
    session = Session(settings, kernel, HeadlessFrontend())
    approver = Approver(session)
    printer = RecordPrinter(as_json=as_json)
    session.log.addHandler(printer)
    session.log.addHandler(approver)
    if settings.approval == "review":
        session.info.set_approval("ask")
        session.notice(REVIEW_NOTICE, "warning")

    answer: str | None = None
    has_failed = False
    with _stopped_by_signals(session) as received_signals:
        try:
            session.start_kernel()
            if _load_inputs(session, files):
                answer = session.agent.ask(question, attach=True)
            else:
                has_failed = True
        except (KernelError, ModelError) as error:
            has_failed = True
            if not as_json and str(error) not in printer.failures:
                warn(session.secrets.mask(str(error)))
        finally:
            session.close()

    if has_failed:
        return FAILED_CODE
    if received_signals:
        return INTERRUPTED_CODE
    if answer and not as_json:
        _print_answer(session.secrets.mask(answer), printer.uncomputed)
    return REFUSED_CODE if approver.refused else ANSWERED_CODE


@contextlib.contextmanager
def _stopped_by_signals(session: Session) -> Iterator[list[int]]:
    """Let signals stop what the session does. The list gets those that arrive; at the end of the
    block, one that ends programs ends this one."""
    received_signals: list[int] = []

    def stop(signal_number: int, frame: object) -> None:
        received_signals.append(signal_number)
        # The program ends soon even if the running cell cannot be stopped.
        if signal_number != signal.SIGINT:
            exit_timer = threading.Timer(EXIT_DELAY_S, exit_by_signal, (signal_number,))
            exit_timer.daemon = True
            exit_timer.start()
        session.stop()

    # Signals ignored by nohup, for example, stay ignored.
    previous_handlers = {
        number: signal.signal(number, stop)
        for number in STOP_SIGNALS
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield received_signals
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        for signal_number in received_signals:
            if signal_number != signal.SIGINT:
                exit_by_signal(signal_number)


def _load_inputs(session: Session, files: Sequence[DataFile]) -> bool:
    """Load what was piped in, and the files; return whether all of it was loaded."""
    return _load_stdin(session) and all(session.cell_thread.load(file) for file in files)


def _print_answer(answer: str, uncomputed: Sequence[str]) -> None:
    """Print the answer to stdout, rendered on a terminal. uncomputed: its figures that no code has
    computed."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        # Show addresses as text, because a link's text may differ from its target.
        Console().print(Markdown(plain(answer), hyperlinks=False))
    else:
        print(plain(answer), flush=True)

    if uncomputed:
        warn(one_line(f"not computed: {', '.join(uncomputed)}"))


def _load_stdin(session: Session) -> bool:
    """Bind piped input to `stdin_text`; return whether that succeeded, or nothing was piped."""
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    if not data:
        return True
    # Through a file, so that the text does not become part of the cell's code.
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(data)
        file.flush()
        code = f"stdin_text = open({file.name!r}, encoding='utf-8', errors='replace').read()"
        return session.cells.run(code).status is Status.OK
