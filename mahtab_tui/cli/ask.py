"""``mahtab-tui ask``: asks one question, or each line of a file, in a session without a screen.

The answers go to stdout, all else to stderr; the exit code says how it went.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from mahtab_tui.bus.values import Status
from mahtab_tui.cli.ask_output import AskedQuestion, OutputForm, print_answer
from mahtab_tui.cli.ask_records import AnswerCollector, Approver, EventPrinter, ProgressPrinter
from mahtab_tui.cli.ask_session import SessionChoice, has_saved, name_session, open_session
from mahtab_tui.cli.headless import (
    ANSWERED_CODE,
    FAILED_CODE,
    INTERRUPTED_CODE,
    REFUSED_CODE,
    WRONG_ARGUMENTS_CODE,
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
    check_reachable,
    enter_folder_and_inspect_files,
    fail,
    load_checked_settings,
    names_kernel,
    warn,
)
from mahtab_tui.cli.stop_signals import StopSignals
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session import Session
from mahtab_tui.session.data_files import DataFile
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.open_session import open_door
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.session_titles import question_title
from mahtab_tui.system import Lazy

CODES_BY_WEIGHT = (FAILED_CODE, INTERRUPTED_CODE, REFUSED_CODE, ANSWERED_CODE)
"""Exit codes, the gravest first. The gravest code of several questions is the program's."""
STDIN = "-"
"""Stands for stdin as a file name."""
STDIN_NOT_LOADED = "What is piped in was not loaded, because the kernel ({host}) may not see files of this machine. Save it as a file that the kernel can read, and name the file's path in the question."
REVIEW_NOTICE = "Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."
REFUSED_SENTENCE = (
    "The model's code did not run, because no one is here to approve it. --approval auto runs it."
)


def ask(
    question: Annotated[str | None, typer.Argument(help="The question")] = None,
    model: Model = None,
    approval: Approval = None,
    python: Python = None,
    kernel: KernelAddress = None,
    load: Load = None,
    continue_: Annotated[
        bool,
        typer.Option("--continue", help="Go on in this folder's last session, with its variables"),
    ] = False,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Go on in a saved session: the beginning of its ID, or its whole name",
        ),
    ] = None,
    save: Annotated[
        str | None, typer.Option(metavar="NAME", help="Save the session under this name")
    ] = None,
    questions_file: Annotated[
        str | None,
        typer.Option(
            "--each", metavar="FILE", help="Ask each line of a file, in one session; - reads stdin"
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the answer, or why there is none")
    ] = False,
    output: Annotated[
        OutputForm,
        typer.Option(
            help="text: the answer; code: the code that ran for it; json: both, with what else is known, in one line"
        ),
    ] = OutputForm.TEXT,
    skills_dir: SkillsDir = None,
    code_dir: CodeDir = None,
    max_usd: MaxUsd = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Ask without a screen: the answer goes to stdout, code and output to stderr.

    Piped input becomes the variable stdin_text, unless --each - reads questions from it. Nothing is
    saved without --save, --continue or --session. Exit codes: 0 answered, 1 the model or the kernel
    failed, 2 wrong arguments, 3 code was refused because nobody could approve it (give --approval
    auto), 130 interrupted.
    """
    _check_options(question, questions_file, session, save, continue_=continue_)
    if json and (quiet or output is not OutputForm.TEXT):
        fail("--json prints every event: leave out --quiet and --output.")
    choice = SessionChoice(
        continue_session=continue_,
        session=session,
        title=save,
        keeps_kernel=not names_kernel(python, kernel, assignments),
    )
    form = AnswerForm(output, is_quiet=quiet, prints_events=json)
    with _open_questions(question, questions_file) as questions:
        files = enter_folder_and_inspect_files(load)
        settings = load_checked_settings(
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
        code = ask_questions(
            questions,
            settings,
            files,
            choice=choice,
            form=form,
            reads_stdin=questions_file != STDIN,
        )
    raise typer.Exit(code)


def _check_options(
    question: str | None,
    questions_file: str | None,
    session: str | None,
    save: str | None,
    *,
    continue_: bool,
) -> None:
    """End the command if its options contradict each other."""
    if questions_file is not None and question is not None:
        fail("--each reads the questions from a file: leave out the question.")
    if questions_file is None and not (question or "").strip():
        fail('Give a question: mahtab-tui ask "question".')
    if continue_ and session is not None:
        fail(
            "--continue goes on in the last session, --session in a given one: choose one of them."
        )
    if session == "":
        fail("--session got an empty ID. --continue goes on in this folder's last session.")
    if save is not None and not question_title(save):
        fail("--save got an empty name.")


class QuestionsError(Exception):
    """The questions cannot be read; the message is a sentence."""

    def __init__(self, file: str, error: OSError) -> None:
        super().__init__(f"The questions cannot be read: {file}: {error.strerror}.")


@contextlib.contextmanager
def _open_questions(question: str | None, questions_file: str | None) -> Iterator[Iterator[str]]:
    """Give the block an iterator of the questions, which may raise `QuestionsError`.

    Ends the command if their file cannot be opened.

    Args:
        question: The only question.
        questions_file: The file with the questions, one a line, or `STDIN`; None if there is only
            one.
    """
    if questions_file is None:
        yield iter([question or ""])
        return
    with contextlib.ExitStack() as stack:
        is_stdin = questions_file == STDIN
        try:
            source = sys.stdin.fileno() if is_stdin else Path(questions_file)
            lines = stack.enter_context(
                open(source, encoding="utf-8", errors="replace", closefd=not is_stdin)
            )
        except OSError as error:
            fail(str(QuestionsError(questions_file, error)))
        yield _read_questions(lines, questions_file)


def _read_questions(lines: Iterable[str], file: str) -> Iterator[str]:
    """Yield the questions in the lines of a file, without empty lines. Raises `QuestionsError`."""
    try:
        for line in lines:
            if question := line.strip():
                yield question
    except OSError as error:
        raise QuestionsError(file, error) from None


class AnswerForm(NamedTuple):
    """What is printed of an answer."""

    output: OutputForm = OutputForm.TEXT
    is_quiet: bool = False
    """Whether only failures go to stderr."""
    prints_events: bool = False
    """Whether stdout gets every event as a line of JSON, and nothing else is printed."""


def ask_questions(
    questions: Iterator[str],
    settings: Settings,
    files: Sequence[DataFile],
    *,
    choice: SessionChoice = SessionChoice(),  # noqa: B008 (it never changes)
    form: AnswerForm = AnswerForm(),  # noqa: B008
    reads_stdin: bool = True,
) -> int:
    """Ask questions in one session, print the answers, and return the exit code.

    Args:
        questions: The questions, which are read one by one.
        settings: The settings of the model and the kernel.
        files: Files to load as variables first.
        choice: Which session it is.
        form: What is printed.
        reads_stdin: Whether what is piped in becomes a variable.
    """
    asked = open_session(settings, choice)
    check_reachable(files, asked.kernel_address)
    session = Session(
        settings,
        Lazy.of(asked.backend),
        HeadlessFrontend(),
        name=asked.name,
        past=asked.past,
        notebook=asked.notebook,
        open_door=open_door,
    )
    asking = _Asking(session, form)
    if not form.is_quiet and not form.prints_events:
        for sentence in asked.notices:
            warn(sentence)
    if settings.approval == "review":
        session.info.set_approval("ask")
        session.notice(REVIEW_NOTICE, "warning")

    with StopSignals(session) as signals:
        try:
            session.start_headless()
            data = _read_stdin(signals) if reads_stdin else b""
            if _load_inputs(session, data, files):
                asking.ask_all(questions, signals, choice.title)
            else:
                asking.fail()
        except (KernelError, QuestionsError) as error:
            asking.fail(error)
        except KeyboardInterrupt:
            # A signal came while input was awaited. It is among those received.
            pass
        finally:
            # A kernel that waited for its screen waits again.
            session.close(leave=session.kernel.was_reattached)
            asked.backend.release()

    if not choice.is_resumed and has_saved(asked.backend):
        asking.say_where_saved()
    return asking.exit_code(signals.received)


class _Asking:
    """Asks the questions of a session, prints the answers, and collects the exit codes."""

    def __init__(self, session: Session, form: AnswerForm) -> None:
        self._session = session
        self._form = form
        self._prints_remarks = not form.is_quiet and not form.prints_events
        """Whether what is no answer and no failure is printed, too."""
        self._codes: list[int] = []
        """The exit code of each question, and of a failure before them."""
        self._approver = Approver(session)
        self._collector = AnswerCollector()
        session.log.addHandler(self._collector)
        if form.prints_events:
            session.log.addHandler(EventPrinter())
        else:
            session.log.addHandler(ProgressPrinter(quiet=form.is_quiet))
        session.log.addHandler(self._approver)

    def ask_all(self, questions: Iterator[str], signals: StopSignals, title: str | None) -> None:
        """Ask each question.

        Args:
            questions: The questions, which are read one by one.
            signals: A signal ends the wait for a question, and the questions.
            title: What the session is called once it is saved; None leaves its name.
        """
        while True:
            with signals.interrupting():
                question = next(questions, None)
            if question is None:
                return

            is_first = not self._codes
            if not is_first and self._prints_remarks:
                write_stderr("")
            self._codes.append(self._ask(question, signals))
            if is_first and title is not None:
                name_session(self._session, title)
            if signals.received:
                return

    def _ask(self, question: str, signals: StopSignals) -> int:
        """Ask a question, print its answer, and return its exit code."""
        self._collector.reset()
        self._approver.reset()
        answer = ""
        try:
            answer = self._session.agent.ask(question, attach=True)
        except (KernelError, ModelError) as error:
            self._report(error)
            code = FAILED_CODE
        else:
            code = self._code_of_answer(answer, signals)
        if not self._form.prints_events:
            self._print(question, "" if code == INTERRUPTED_CODE else answer, code)
        return code

    def _code_of_answer(self, answer: str, signals: StopSignals) -> int:
        """Return the exit code of a question that raised no error."""
        if signals.received or self._approver.was_stopped:
            return INTERRUPTED_CODE
        if self._approver.refused:
            return REFUSED_CODE
        return ANSWERED_CODE if answer else FAILED_CODE

    def _print(self, question: str, answer: str, code: int) -> None:
        mask = self._session.secrets.mask
        asked = AskedQuestion(
            question=mask(question),
            answer=mask(answer),
            code=self._collector.code,
            uncomputed_figures=self._collector.uncomputed_figures,
            failures=self._collector.failures if code == FAILED_CODE else (),
            exit_code=code,
            session=self._session.saved_id,
        )
        print_answer(asked, self._form.output, is_quiet=self._form.is_quiet)
        if code == REFUSED_CODE and self._form.is_quiet:
            warn(REFUSED_SENTENCE)

    def _report(self, error: KernelError | ModelError | QuestionsError) -> None:
        """Print why there is no answer, unless that has been printed."""
        sentence = self._session.secrets.mask(str(error))
        if sentence in self._collector.failures:
            return
        self._collector.failures.append(sentence)
        warn(sentence)

    def fail(self, error: KernelError | QuestionsError | None = None) -> None:
        """Note that nothing can be asked.

        Args:
            error: The reason; None if it has been printed.
        """
        if error is not None:
            self._report(error)
        self._codes.append(FAILED_CODE)

    def say_where_saved(self) -> None:
        """Name the session that was saved, so that its ID need not be looked for."""
        if self._prints_remarks:
            session_id = self._session.saved_id
            warn(f"Saved as session {session_id}: ask --session {session_id} goes on in it.")

    def exit_code(self, signals: Sequence[int]) -> int:
        """Return the exit code of all questions together.

        Args:
            signals: The signals that have stopped them.
        """
        codes = set(self._codes)
        if signals:
            codes.add(INTERRUPTED_CODE)
        if not codes:
            warn("There was no question.")
            return WRONG_ARGUMENTS_CODE
        return next(code for code in CODES_BY_WEIGHT if code in codes)


def _read_stdin(signals: StopSignals) -> bytes:
    """Return what is piped in; nothing at a terminal.

    A signal ends the wait with `KeyboardInterrupt`.
    """
    if sys.stdin.isatty():
        return b""
    with signals.interrupting():
        return sys.stdin.buffer.read()


def _load_inputs(session: Session, stdin_data: bytes, files: Sequence[DataFile]) -> bool:
    """Load what was piped in, and the files; return whether all of it was loaded."""
    if not _load_stdin(session, stdin_data):
        return False
    # The first file that cannot be loaded ends it.
    return all(session.cell_thread.load(file) for file in files)


def _load_stdin(session: Session, data: bytes) -> bool:
    """Bind what was piped in to `stdin_text`; return whether that succeeded, or nothing was piped."""
    if not data:
        return True
    host = session.kernel.info().host
    if host:
        session.notice(STDIN_NOT_LOADED.format(host=host), "error")
        return False
    # Through a file, so that the text does not become part of the cell's code.
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(data)
        file.flush()
        code = f"stdin_text = open({file.name!r}, encoding='utf-8', errors='replace').read()"
        return session.cells.run(code).status is Status.OK
