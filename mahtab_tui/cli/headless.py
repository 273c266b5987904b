"""``mahtab-tui ask`` and ``rlm``: a question or a search without a screen."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mahtab_tui.bus import codec, records
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.masked_streams import MaskingFilter
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import (
    Decision,
    Notice,
    Record,
    SearchChatStream,
    SearchRecord,
    get_record,
)
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.values import Status
from mahtab_tui.cli.options import (
    Approval,
    Assignments,
    CodeDir,
    Json,
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
from mahtab_tui.llm.choices import default_model
from mahtab_tui.sandbox.base import SandboxError
from mahtab_tui.search.limits import merge_limits
from mahtab_tui.search.logs import LogFile
from mahtab_tui.search.search import Search, SearchAnswer
from mahtab_tui.search.tree import Tree
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.session.loading import DataFile
from mahtab_tui.settings.model import Settings
from mahtab_tui.system import exit_by_signal, start_thread
from mahtab_tui.worker.rlm.answers import needs_code
from mahtab_tui.worker.rlm.contexts import ContextError

if TYPE_CHECKING:
    from mahtab_tui.search.chosen_models import ModelSpec
    from mahtab_tui.search.limits import SearchLimits

ANSWERED_CODE = 0
FAILED_CODE = 1
WRONG_ARGUMENTS_CODE = 2
REFUSED_CODE = 3
PARTIAL_CODE = 4
INTERRUPTED_CODE = 130
"""Exit codes of `ask` and `rlm`."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_DELAY_S = 2.0
"""How long a signal waits for the running cell before it ends the program."""
PROGRESS_INTERVAL_S = 0.1
LOG_INTERVAL_S = 10.0
"""Seconds between two progress lines on a terminal, and elsewhere."""
REVIEW_NOTICE = "Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."


def rlm(
    query: Annotated[str | None, typer.Argument(help="What to find out")] = None,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|-", help="A text file, a folder of text files, or - for piped input"
        ),
    ] = None,
    model: Model = None,
    sub_model: Annotated[str | None, typer.Option(help="A cheaper model for the parts")] = None,
    max_depth: Annotated[
        int | None,
        typer.Option(
            help="Max depth of calls; those at this depth run no code. The question is at depth 0  [default: 1]"
        ),
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns of one call")] = None,
    max_calls: Annotated[
        int | None, typer.Option(help="Model calls of the whole search  [default: 200]")
    ] = None,
    max_usd: Annotated[float | None, typer.Option(help="US dollars of the whole search")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Seconds of the whole search")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Model calls at once")] = None,
    log: Annotated[
        Path | None, typer.Option(help="Write the events to this file, as JSON lines")
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Allow more than 50 sub-calls, which are refused otherwise"),
    ] = False,
    json: Json = False,
    assignments: Assignments = None,
) -> None:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox
    and calls itself on parts.

    The answer goes to stdout, progress to stderr. Exit codes: 0 answered, 1 no answer, 2 wrong
    arguments, 4 a partial answer, 130 interrupted.
    """
    if query is None or not query.strip() or source is None:
        fail('Give a question and a file: mahtab-tui rlm "question" FILE, or - for piped input.')

    settings = checked_settings(
        ("model", "sub_model"), assignments, model=model, sub_model=sub_model
    )
    try:
        limits = merge_limits(
            settings.rlm_limits(),
            max_depth=max_depth,
            max_turns=max_turns,
            max_calls=max_calls,
            max_usd=max_usd,
            max_seconds=max_seconds,
            concurrency=concurrency,
        )
    except ValueError as error:
        fail(f"--{str(error).replace('_', '-', 1)}")
    exit_code = search_once(
        query,
        source,
        settings,
        limits,
        model=settings.model or default_model(),
        log=log,
        as_json=json,
        yes=yes,
    )
    raise typer.Exit(exit_code)


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
            print(_json_line(event), flush=True)
        elif text := _progress_text(event):
            _write_stderr(plain(text))


def _json_line(record: Record) -> str:
    return json.dumps(codec.as_json(record.changed(time=round(record.time, 3))))


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
        with contextlib.suppress(EOFError):
            if record.password:
                return getpass(plain(record.text))
            _write_stderr(plain(record.text), end="")
            line = sys.stdin.readline()
            return line.removesuffix("\n") if line else None
        return None

    def _refuse(self, code: str) -> Decision:
        self.refused = True
        self._session.notice(
            f"Not run: no one is here to approve it (--approval auto runs it):\n{visible(code)}",
            "warning",
        )
        # Stop the turn: a model whose code is only skipped would try again.
        return Decision("stop")

    def _ask(self, code: str) -> Decision:
        choices = "[y]es run it, [n]o skip it, [a]ll from now on, [s]top? "
        _write_stderr(f"{visible(code)}\n{choices}", end="")
        letter = sys.stdin.readline().strip().lower()[:1]
        decisions = {"y": Decision("run"), "a": Decision("all"), "n": Decision("skip")}
        return decisions.get(letter, Decision("stop"))


def ask(
    question: Annotated[str, typer.Argument(help="The question")],
    model: Model = None,
    approval: Approval = None,
    python: Python = None,
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
        skills_dir=skills_dir or None,
        code_dir=code_dir,
        max_usd=max_usd,
    )
    raise typer.Exit(ask_once(question, settings, files, as_json=json))


def ask_once(question: str, settings: Settings, files: Sequence[DataFile], *, as_json: bool) -> int:
    """Ask, print the answer, and return the exit code."""
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
        session.start_kernel()
        if not _load_stdin(session):
            return FAILED_CODE
        if not all(session.cell_thread.load(file) for file in files):
            return FAILED_CODE
        answer = session.agent.ask(question, attach=True)
    except (KernelError, ModelError) as error:
        if not as_json and str(error) not in printer.failures:
            warn(session.secrets.mask(str(error)))
        return FAILED_CODE
    finally:
        session.close()
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        for signal_number in received_signals:
            if signal_number != signal.SIGINT:
                exit_by_signal(signal_number)

    if received_signals:
        return INTERRUPTED_CODE
    if answer and not as_json:
        _print_answer(session.secrets.mask(answer), printer.uncomputed)
    return REFUSED_CODE if approver.refused else ANSWERED_CODE


def _print_answer(answer: str, uncomputed: Sequence[str]) -> None:
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


class Progress:
    """A progress line on stderr: rewritten on a terminal, printed occasionally elsewhere."""

    def __init__(self) -> None:
        self._tree = Tree("")
        self._lock = threading.Lock()  # the searching threads fold, the progress thread draws
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._start_time = time.monotonic()
        self._closed = threading.Event()
        self._thread = start_thread("progress", self._draw)

    def fold(self, record: Record) -> None:
        if isinstance(record, Notice):
            self._write(plain(record.text), end="\n")
        else:
            with self._lock:
                self._tree.fold(record)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._write(self._line(), end="\n")

    def _draw(self) -> None:
        interval_s = PROGRESS_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S
        line_end = "" if self._is_terminal else "\n"
        while not self._closed.wait(interval_s):
            self._write(self._line(), end=line_end)

    def _line(self) -> str:
        with self._lock:
            usage = self._tree.used
            node_count = len(self._tree.nodes)
            counts = self._tree.counts
            running_count = counts.get("thinking", 0) + counts.get("running", 0)

        if usage.calls and usage.unpriced_calls == usage.calls:
            cost = "price unknown"
        else:
            at_least = "+" if usage.unpriced_calls else ""
            cost = f"${usage.cost:,.4f}{at_least}"
        seconds = time.monotonic() - self._start_time
        return f"calls: {node_count:,} ({running_count:,} running), model calls: {usage.calls:,}, tokens: {usage.tokens:,}, {cost}, {seconds:,.0f} s"

    def _write(self, text: str, end: str) -> None:
        rewrite_line = "\r\x1b[K" if self._is_terminal else ""
        _write_stderr(rewrite_line + text, end)


class Stdout:
    """Writes answers to stdout until writing fails."""

    def __init__(self) -> None:
        self.failed = False

    def write(self, line: str) -> None:
        if self.failed:
            return
        try:
            print(line, flush=True)
        except OSError as error:
            self.failed = True
            if not isinstance(error, BrokenPipeError):
                _write_stderr(f"mahtab-tui: stdout cannot be written: {error.strerror}.")
            # At exit, the interpreter would flush stdout and report the error again.
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, sys.stdout.fileno())
            os.close(null_device)


class SearchReporter:
    """Shows a search: progress on stderr, the answer or all events on stdout, events in a log."""

    def __init__(self, secrets: Secrets, *, as_json: bool) -> None:
        """
        Args:
            secrets: Are masked in everything that is written.
            as_json: Print every event instead of the answer.
        """
        self.search: Search | None = None
        """Is stopped if nobody reads the events any more."""
        self.stdout = Stdout()
        self._progress = Progress()
        self._secrets = secrets
        self._masking = MaskingFilter(secrets)
        self._as_json = as_json
        self._log: LogFile | None = None

    def open_log(self, path: Path) -> None:
        """Write all events to a file, too. Raises `OSError`."""
        self._log = LogFile(path)

    def send(self, record: Record) -> None:
        """Show an event."""
        masked = self._masking.mask_record(record)
        self._progress.fold(masked)
        if self._log is not None:
            self._log.write(masked)
        if self._as_json and not isinstance(masked, SearchChatStream):
            self._print_json(masked)

    def report(self, sentence: str) -> None:
        """Print a sentence to stderr, after the program's name."""
        _write_stderr(f"mahtab-tui: {plain(self._secrets.mask(sentence))}")

    def report_error(self, error: Exception) -> None:
        """Print an error in the place of the progress line."""
        self._progress.fold(Notice(self._secrets.mask(f"mahtab-tui: {error}")))

    def print_answer(self, answer: SearchAnswer) -> int:
        """Print the answer, unless the events did; return the exit code."""
        if answer.state in ("error", "stopped"):
            if not self.stdout.failed:
                self.report(answer.text)
            return FAILED_CODE

        if not self._as_json:
            self.stdout.write(plain(self._secrets.mask(answer.text)))
        is_partial = answer.state == "partial"
        if is_partial:
            reason = answer.why.rstrip(".") or "the search ended early"
            self.report(f"{reason}; this answer is partial.")
        if self.stdout.failed:
            return FAILED_CODE
        return PARTIAL_CODE if is_partial else ANSWERED_CODE

    def close(self) -> None:
        self._progress.close()
        if self._log is not None:
            self._log.close()
            if self._log.problem:
                self.report(self._log.problem)

    def _print_json(self, record: Record) -> None:
        self.stdout.write(_json_line(record))
        if self.search is None or not self.stdout.failed:
            return
        # Nobody reads the output any more, so nobody needs the search.
        if isinstance(record, SearchRecord):
            self.search.stop(record.tree, "1")


def search_once(
    query: str,
    source: str,
    settings: Settings,
    limits: SearchLimits,
    *,
    model: ModelSpec,
    log: Path | None,
    as_json: bool,
    yes: bool,
) -> int:
    """Search, print the answer, and return the exit code.

    Args:
        source: A file, a folder, or "-" for piped input.
        log: Write the events to this file.
        as_json: Print every event instead of the answer.
        yes: Run large fan-outs, which are refused otherwise.
    """
    secrets = Secrets(settings.secrets)
    reporter = SearchReporter(secrets, as_json=as_json)
    try:
        if log is not None:
            try:
                reporter.open_log(log)
            except OSError as error:
                reporter.report(f"{log} cannot be written: {error.strerror}.")
                return WRONG_ARGUMENTS_CODE

        reporter.search = Search(
            reporter.send,
            model_options=lambda: {"timeout": settings.model_timeout, **settings.model_access()},
            secrets=secrets,
        )
        context = _read_stdin() if source == "-" else Path(source)
        answer = reporter.search.run(
            query,
            context,
            model=model,
            sub_model=settings.sub_model,
            limits=limits,
            asking="run" if yes else "refuse",
            by_code=needs_code(query, None, ()),
        )
    except KeyboardInterrupt:
        return INTERRUPTED_CODE
    except (ContextError, ModelError) as error:
        reporter.report_error(error)
        return WRONG_ARGUMENTS_CODE
    except SandboxError as error:
        reporter.report_error(error)
        return FAILED_CODE
    finally:
        if reporter.search is not None:
            reporter.search.close()
        reporter.close()
    return reporter.print_answer(answer)


def _write_stderr(text: str, end: str = "\n") -> None:
    """Write to stderr if possible; the answer does not depend on it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, end=end, file=sys.stderr, flush=True)


def _read_stdin() -> bytes:
    try:
        return b"" if sys.stdin is None else sys.stdin.buffer.read()
    except OSError as error:
        raise ContextError(f"stdin cannot be read: {error.strerror}.") from None
