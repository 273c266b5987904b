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
from collections.abc import Callable, Sequence
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahtab_tui.bus import codec, records
from mahtab_tui.bus.masking import MaskingFilter, Secrets
from mahtab_tui.bus.records import (
    Decision,
    Notice,
    Record,
    SearchChatStream,
    SearchRecord,
    get_record,
)
from mahtab_tui.bus.sanitize import one_line, plain, visible
from mahtab_tui.cli.options import Assignments, Json, Model, checked_settings, fail, fail_on, warn
from mahtab_tui.kernel.base import KernelError, Status
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import default_model
from mahtab_tui.sandbox.base import SandboxError
from mahtab_tui.search.api import Log, Search
from mahtab_tui.search.limits import merge_limits
from mahtab_tui.search.tree import Tree
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.session.loading import DataFile
from mahtab_tui.settings.model import Settings
from mahtab_tui.system import exit_by_signal, start_thread
from mahtab_tui.worker.answers import needs_code
from mahtab_tui.worker.contexts import ContextError

if TYPE_CHECKING:
    from mahtab_tui.search.conversation import GivenModel
    from mahtab_tui.search.limits import Limits


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
    model_used = settings.model or default_model()
    raise typer.Exit(
        search_once(
            query, source, settings, limits, model=model_used, log=log, as_json=json, yes=yes
        )
    )


ANSWERED, FAILED, REFUSED, INTERRUPTED = 0, 1, 3, 130

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CLOSE_SECONDS = 2.0
_REVIEW_NOTICE = "Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."


class RecordPrinter(logging.Handler):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self.failures: set[str] = set()
        self.uncomputed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        if isinstance(value, records.Notice) and value.level == "error":
            self.failures.add(value.text)
        if isinstance(value, records.AssistantChat):
            self.uncomputed = [figure.doubt for figure in value.figures or () if not figure.found]
        if self._as_json:
            print(_json_line(value), flush=True)
        elif text := _for_stderr(value):
            _write_stderr(plain(text))


def _json_line(record: Record) -> str:
    return json.dumps(codec.as_json(record.changed(time=round(record.time, 3))))


def _for_stderr(record: Record) -> str:
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
        case records.Kernel() if record.pid:
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
        value = get_record(record)
        if isinstance(value, records.Approval | records.Input) and value.state == "waiting":
            # The asking thread starts waiting only after this record, so the answer must come from
            # another thread.
            start_thread("approver", self._answer, value)

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
        return Decision("stop")  # if refused, the model would only try again

    def _ask(self, code: str) -> Decision:
        asks = "[y]es run it, [n]o skip it, [a]ll from now on, [s]top? "
        _write_stderr(f"{visible(code)}\n{asks}", end="")
        letter = sys.stdin.readline().strip().lower()[:1]
        decisions = {"y": Decision("run"), "a": Decision("all"), "n": Decision("skip")}
        return decisions.get(letter, Decision("stop"))


def ask_once(question: str, settings: Settings, files: Sequence[DataFile], *, as_json: bool) -> int:
    """Ask, print the answer, and return the exit code."""
    with fail_on(KernelError):
        kernel = process_kernel(settings)
    session = Session(settings, kernel, HeadlessFrontend())
    approver, printer = Approver(session), RecordPrinter(as_json=as_json)
    session.log.addHandler(printer)
    session.log.addHandler(approver)
    if settings.approval == "review":
        session.info.set_approval("ask")
        session.notice(_REVIEW_NOTICE, "warning")
    stopped_by: list[int] = []

    def stop(signum: int, frame: object) -> None:
        stopped_by.append(signum)
        # The program ends soon even if the running cell cannot be stopped.
        if signum != signal.SIGINT:
            last = threading.Timer(_CLOSE_SECONDS, exit_by_signal, (signum,))
            last.daemon = True
            last.start()
        session.stop()

    # Signals ignored by nohup, for example, stay ignored.
    before = {
        number: signal.signal(number, stop)
        for number in _STOPPING
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        session.start_kernel()
        if not (_load_stdin(session) and all(session.cell_thread.load(file) for file in files)):
            return FAILED
        answer = session.agent.ask(question, attach=True)
    except (KernelError, ModelError) as error:
        if not as_json and str(error) not in printer.failures:
            warn(session.secrets.mask(str(error)))
        return FAILED
    finally:
        session.close()
        for number, handler in before.items():
            signal.signal(number, handler)
        if ending := [number for number in stopped_by if number != signal.SIGINT]:
            exit_by_signal(ending[0])
    if stopped_by:
        return INTERRUPTED
    if answer and not as_json:
        _print_answer(session.secrets.mask(answer), printer.uncomputed)
    return REFUSED if approver.refused else ANSWERED


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
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    if not data:
        return True
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(data)
        file.flush()
        code = f"stdin_text = open({file.name!r}, encoding='utf-8', errors='replace').read()"
        return session.cells.run(code).status is Status.OK


WRONG_ARGUMENTS, PARTIAL = 2, 4

_DRAW_SECONDS = 0.1


class Progress:
    """A progress line on stderr: rewritten on a terminal, printed occasionally elsewhere."""

    def __init__(self) -> None:
        self._tree = Tree("")
        self._lock = threading.Lock()
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = start_thread("progress", self._draw)

    def fold(self, record: Record) -> None:
        if isinstance(record, Notice):
            self._write(plain(record.text), end="\n")
        else:
            with self._lock:
                self._tree.fold(record)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._write(self._line(), end="\n")

    def _draw(self) -> None:
        while not self._ended.wait(_DRAW_SECONDS if self._terminal else 100 * _DRAW_SECONDS):
            self._write(self._line(), end="" if self._terminal else "\n")

    def _line(self) -> str:
        with self._lock:
            used, nodes = self._tree.used, len(self._tree.nodes)
            alive = self._tree.counts.get("thinking", 0) + self._tree.counts.get("running", 0)
        cost = f"${used.cost:.4f}{'+' if used.unpriced else ''}"
        if used.calls and used.unpriced == used.calls:
            cost = "price unknown"
        seconds = time.monotonic() - self._began
        return f"calls: {nodes:,} ({alive:,} running), model calls: {used.calls:,}, tokens: {used.tokens:,}, {cost}, {seconds:.0f} s"

    def _write(self, text: str, end: str) -> None:
        _write_stderr(f"\r\x1b[K{text}" if self._terminal else text, end)


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
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def search_once(
    query: str,
    source: str,
    settings: Settings,
    limits: Limits,
    *,
    model: GivenModel,
    log: Path | None,
    as_json: bool,
    yes: bool,
) -> int:
    """Search a file, a folder, or piped input ("-"); print the answer, and return the exit code.
    yes: run large fan-outs, which are refused otherwise."""
    secrets = Secrets(settings.secrets)
    progress, stdout, masking = Progress(), Stdout(), MaskingFilter(secrets)
    receivers: list[Callable[[Record], None]] = [progress.fold]
    log_file: Log | None = None
    search: Search | None = None

    def send(record: Record) -> None:
        masked = masking.mask_record(record)
        for receive in receivers:
            receive(masked)

    def print_json(record: Record) -> None:
        if not isinstance(record, SearchChatStream):
            stdout.write(_json_line(record))
            if search is not None and stdout.failed and isinstance(record, SearchRecord):
                search.stop(record.tree, "1")  # nobody reads the output

    def report(sentence: str) -> None:
        _write_stderr(f"mahtab-tui: {plain(secrets.mask(sentence))}")

    try:
        if log is not None:
            try:
                log_file = Log(log)
            except OSError as error:
                report(f"{log} cannot be written: {error.strerror}.")
                return WRONG_ARGUMENTS
            receivers.append(log_file.write)
        search = Search(
            send,
            model_options=lambda: {"timeout": settings.model_timeout, **settings.model_access()},
            secrets=secrets,
        )
        if as_json:
            receivers.append(print_json)
        context: Any = _read_stdin() if source == "-" else Path(source)
        answer = search.run(
            query,
            context,
            model=model,
            sub_model=settings.sub_model,
            limits=limits,
            asking="run" if yes else "refuse",
            by_code=needs_code(query, None, ()),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ContextError, ModelError, SandboxError) as error:
        progress.fold(Notice(secrets.mask(f"mahtab-tui: {error}")))
        return FAILED if isinstance(error, SandboxError) else WRONG_ARGUMENTS
    finally:
        if search is not None:
            search.close()
        progress.close()
        if log_file is not None:
            log_file.close()
            if log_file.trouble:
                report(log_file.trouble)
    if answer.state in ("error", "stopped"):
        if not stdout.failed:
            report(answer.text)
        return FAILED
    if not as_json:
        stdout.write(plain(secrets.mask(answer.text)))
    if is_partial := answer.state == "partial":
        why = answer.why.rstrip(".") or "the search ended early"
        report(f"{why}; this answer is partial.")
    return FAILED if stdout.failed else PARTIAL if is_partial else ANSWERED


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
