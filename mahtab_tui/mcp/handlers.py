"""Serves the tool calls of one agent, and formats the results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from mahtab_tui.bus.differences import changed_fields
from mahtab_tui.bus.hidden_characters import refusal
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.terminal_screen import OVERWRITTEN, escape_controls, escape_output
from mahtab_tui.bus.values import CHANGE_SIGNS, Change, Status, Variable
from mahtab_tui.kernel.cells import INTERRUPT_GRACE_S, pictures, pieces
from mahtab_tui.kernel.launch import environment_prefix
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.mcp.connection import Journal, OwnSession, SessionConnection, log_file
from mahtab_tui.mcp.output_form import OutputForm
from mahtab_tui.mcp.packages import (
    Action,
    find_environment,
    find_project,
    plan_commands,
    run_command,
)
from mahtab_tui.mcp.tools import (
    Arguments,
    McpTool,
    McpToolError,
    Report,
    ToolAnswer,
    fenced,
    shorten_line,
    strip_colours,
)
from mahtab_tui.session.agent_calls import MAX_CHANGES, Evaluation, SessionContents
from mahtab_tui.worker.cells.capture import shorten

if TYPE_CHECKING:
    from mahtab_tui.settings.model import Settings

MAX_VARIABLES = 200
MAX_SUMMARY_CHARS = 60
MAX_OUTPUT_CHARS = 20_000
"""Characters of output in an answer, by default."""
MAX_PROGRESS_CHARS = 2_000
"""Characters of a command's output that are reported while it runs."""

TRACEBACK_HEAD_LINES = 6
TRACEBACK_TAIL_LINES = 24
MIN_TRACEBACK_CHARS = 4_000
"""Characters of a traceback that are always allowed."""

_SESSION_ENDED = (
    "Your session has ended, and its variables are gone. The next call starts a new one."
)

Mode = Literal["private", "shared"]


def describe_contents(contents: SessionContents, mode: Mode) -> str:
    """Return the text of `info`."""
    modules: list[str] = []
    variables: list[str] = []
    for variable in contents.variables:
        if variable.underscored:
            continue
        name = shorten_line(variable.name)
        if variable.kind == "module":
            modules.append(name)
        else:
            row = f"{name}: {shorten_line(variable.type)} {shorten_line(variable.summary)}".rstrip()
            mark = contents.marks.get(variable.name, "")
            variables.append(f"{row} · {mark}" if mark and variable.kind == "data" else row)

    kernel = contents.kernel
    environment = environment_prefix(kernel.executable) or "none of its own"
    project = find_project(Path(kernel.cwd)) or "none"
    cell_count = f"{contents.cells:,} {'cell' if contents.cells == 1 else 'cells'}"
    start_event = "you joined" if mode == "shared" else "your session started"
    lines = [
        f"Python {kernel.python} · {kernel.executable} · worker {kernel.pid} · {mode}",
        f"environment: {environment}",
        f"project: {project} · working directory: {kernel.cwd}",
        f"{cell_count} in {round(contents.busy, 3):g} s · {contents.alive:,.1f} s since {start_event}",
        f"modules: {', '.join(_limit_rows(modules)) or 'none'}",
        "variables:" if variables else "variables: none",
    ]
    lines += [f"  {row}" for row in _limit_rows(variables)]
    if contents.stale:
        lines.append("stale, because a variable is different now:")
        lines += [f"  {line}" for line in contents.stale]
    if contents.others:
        lines.append("run by others since you last asked:")
        lines += [f"  {line}" for line in contents.others]
    return escape_controls("\n".join(lines))


def _limit_rows(rows: list[str]) -> list[str]:
    omitted_count = len(rows) - MAX_VARIABLES
    if omitted_count <= 0:
        return rows
    return [*rows[:MAX_VARIABLES], f"… and {omitted_count:,} more"]


class EvalArguments(Arguments):
    code: str = Field(
        description="Python. The last expression's value is shown; top-level await, !command and %magic work"
    )
    timeout_s: float | None = Field(
        None,
        gt=0,
        description="Seconds after which the code is interrupted, counted from its start. Without it: no limit",
    )
    max_output: int = Field(
        MAX_OUTPUT_CHARS,
        ge=0,
        description="Characters of output that the answer holds at most: its head and its tail",
    )


def format_answer(
    done: Evaluation, arguments: EvalArguments, form: OutputForm | None = None
) -> ToolAnswer:
    """Write the result of a cell for the agent.

    Args:
        done: the result.
        arguments: those of the call.
        form: how its value, output and traceback are written; by default as plain text.
    """
    form = form or OutputForm()
    result = done.result
    texts = {"value": "", "stdout": "", "traceback": "", "display": ""}
    for kind, text in pieces(result):
        texts[kind] += text

    max_chars = arguments.max_output
    value = (texts["display"] + texts["value"]).rstrip("\n")
    traceback = shorten_traceback(texts["traceback"].rstrip("\n"))
    max_traceback_chars = max(max_chars, MIN_TRACEBACK_CHARS)

    sections: list[str] = []
    if done.edited:
        edited_code = fenced(escape_controls(done.edited))
        sections.append(f"The user edited the code. What ran:\n{edited_code}")
    sections += [
        escape_controls(describe_end(done, arguments.timeout_s)),
        form.write("value", shorten(value, max_chars // 2)),
        form.write("stdout", shorten(texts["stdout"], max_chars // 2)),
        OVERWRITTEN if result.rewritten else "",
        form.write("traceback", shorten(traceback, max_traceback_chars // 2)),
    ]
    if done.late:
        sections.append(f"Printed since the last call:\n{format_output(done.late)}")
    sections.append(format_changes(result.changes, done.omitted_changes))

    text = "\n".join(section.rstrip("\n") for section in sections if section)
    text = text or "(no value, no output)"
    failed = result.status is not Status.OK or done.declined != "" or done.running or done.timed_out
    return ToolAnswer(text, pictures(result), failed=failed)


def format_output(text: str) -> str:
    return escape_output(strip_colours(text)) if text else ""


def describe_end(done: Evaluation, timeout: float | None) -> str:
    """Return a sentence for any end except a normal one."""
    timeout_note = ""
    if done.timed_out and timeout is not None:
        timeout_note = f"Timed out after {timeout:g} s: "
    variables_note = "All variables are gone"
    if done.restores:
        variables_note = "Only saved variables come back (info lists them)"

    if done.declined:
        return f"The code did not run: {done.declined}."
    if done.running:
        return f"{timeout_note}the code was interrupted, but did not end within {INTERRUPT_GRACE_S:g} s and is still running. Output so far:"
    match done.result.status:
        case Status.INTERRUPTED:
            article = "the" if timeout_note else "The"
            return f"{timeout_note}{article} code was interrupted. Variables are as it left them."
        case Status.KILLED:
            reason = done.result.detail
            if timeout_note:
                reason = f"the code did not end within {INTERRUPT_GRACE_S:g} s after its interrupt, so the worker was killed."
            return f"{timeout_note}{reason} {variables_note}; a new worker is ready."
        case Status.DIED:
            interrupt = f"{timeout_note}the code was interrupted. " if timeout_note else ""
            return f"{interrupt}{done.result.detail} {variables_note}; a new worker starts with the next call."
        case _:
            if timeout_note:
                return f"{timeout_note}the code was interrupted, and then ended by itself."
            return ""


def format_changes(changes: Sequence[Change], omitted_count: int = 0) -> str:
    """Format ``[+x int 5, ~rows list 3 items, −old]``. omitted_count: further changes, which are only
    counted."""
    if not changes:
        return ""
    descriptions: list[str] = []
    for change in changes[:MAX_CHANGES]:
        words = [CHANGE_SIGNS[change.change] + shorten_line(change.name)]
        if change.variable is not None:
            words += _describe_variable(change.variable, change)
        descriptions.append(" ".join(filter(None, words)))
    omitted_count += len(changes) - len(descriptions)
    if omitted_count:
        descriptions.append(f"and {omitted_count:,} more")
    return f"[{', '.join(descriptions)}]"


def _describe_variable(variable: Variable, change: Change) -> list[str]:
    """Return a variable's type and summary, or only the fields of an object that have changed."""
    before = change.before
    if before is not None and before.type == variable.type:
        fields = changed_fields(before.summary, variable.summary)
        if fields:
            return [f"{shorten_line(variable.type)}({shorten_line(fields, MAX_SUMMARY_CHARS)})"]
    words = [shorten_line(variable.type), shorten_line(variable.summary, MAX_SUMMARY_CHARS)]
    return [*words, shorten_line(change.columns, MAX_SUMMARY_CHARS)]


def shorten_traceback(text: str) -> str:
    """Remove the middle, because the frames of a recursion repeat themselves."""
    lines = text.split("\n")
    omitted_count = len(lines) - TRACEBACK_HEAD_LINES - TRACEBACK_TAIL_LINES
    if omitted_count <= 1:
        return text
    middle = f"  … {omitted_count:,} lines left out …"
    return "\n".join([*lines[:TRACEBACK_HEAD_LINES], middle, *lines[-TRACEBACK_TAIL_LINES:]])


class NoArguments(Arguments):
    """No arguments."""


class UndoArguments(Arguments):
    cell: int | None = Field(
        None,
        ge=1,
        description="The first cell to undo, as info numbers them; without it, what was run last",
    )


class ActivateArguments(Arguments):
    path: str = Field(
        description="A project's folder, a virtual environment, a conda prefix, an interpreter's file, or . for the working directory"
    )


class PackageArguments(Arguments):
    action: Action = Field(
        description="add, rm, status, update; install: all requirements of the project; resolve: write the lock file; test: run pytest; "
        "develop: install a folder as editable; free: return from editable to the released package"
    )
    packages: list[str] = Field(
        [], description="Names (numpy, 'httpx>=0.27'), folders for develop, arguments for test"
    )


class LogArguments(Arguments):
    mode: Literal["auto", "file", "off"] = Field(
        description="auto: in colour, for tail -f; file: as plain text; off"
    )


class ModeArguments(Arguments):
    mode: Mode = Field(
        description="private: your own session; shared: the session on the user's screen"
    )
    session: str | None = Field(
        None, description="The session's name or process id, if several run"
    )


class AttachOptions(NamedTuple):
    """Whether and when the agent joins the session on the user's screen."""

    at_once: bool = False
    session: str | None = None
    """The session's name or process id, if several run."""
    never: bool = False


class ToolHandlers:
    """The docstring of each tool is its description for agents."""

    def __init__(self, settings: Settings, attach: AttachOptions) -> None:
        self.secrets = Secrets(settings.secrets)
        self._journal = Journal(self.secrets)
        self._folder = Path.cwd()
        self._attach = attach
        self._settings = settings
        self._own_session: OwnSession | None = None
        self._shared_session: SessionConnection | None = None
        self._joining = asyncio.Lock()
        self.agent = "agent"
        self.mode: Mode = "shared" if attach.at_once else "private"

    def tools(self) -> list[McpTool[Any]]:
        return [
            McpTool("eval", "Run Python", EvalArguments, self.eval, destructive=True),
            McpTool("reset", "Start over", NoArguments, self.reset, destructive=True),
            McpTool("undo", "Undo cells", UndoArguments, self.undo, destructive=True),
            McpTool("info", "Look at the session", NoArguments, self.info, read_only=True),
            McpTool("pkg", "Manage packages", PackageArguments, self.pkg, destructive=True),
            McpTool(
                "activate",
                "Change the environment",
                ActivateArguments,
                self.activate,
                destructive=True,
                idempotent=True,
            ),
            McpTool(
                "log_viewer", "Log for the user", LogArguments, self.log_viewer, idempotent=True
            ),
            McpTool("mode", "Private or shared", ModeArguments, self.set_mode, idempotent=True),
        ]

    async def close(self) -> None:
        if self._own_session is not None:
            await self._own_session.close()
        if self._shared_session is not None:
            await self._shared_session.close()
        self._journal.switch(False)

    async def session(self) -> SessionConnection:
        if self.mode == "private":
            if self._own_session is None:
                self._own_session = OwnSession(self._settings, self._journal)
            return await self._own_session.connection(self.agent)
        async with self._joining:
            if self._shared_session is None:
                self._shared_session = await self._join(self._attach.session)
            return self._shared_session

    async def set_mode(self, arguments: ModeArguments, report: Report) -> ToolAnswer:
        """Run code in your own session (private, the default) or in the user's live session
        (shared): the same variables, visible to them, and only after their approval if they want
        that. There undo, reset, pkg and activate always wait for the user. A time limit counts from
        the start of the execution, not from the queue."""
        if arguments.mode == "private":
            self.mode = "private"
            return ToolAnswer("Code now runs in your own session.")
        if self._attach.never:
            raise McpToolError(
                "This server was started with --private, so it cannot join a session."
            )

        name = arguments.session
        async with self._joining:
            session = self._shared_session
            if (
                session is None
                or session.has_ended
                or name not in (None, session.session, str(session.pid))
            ):
                joined = await self._join(name or self._attach.session)
                if session is not None:
                    await session.close()
                session = joined
                self._shared_session = joined
        self.mode = "shared"
        return _sentence(
            f"You are {session.name} in the user's session {session.session}: its variables are theirs, and they see what you run."
        )

    async def eval(self, arguments: EvalArguments, report: Report) -> ToolAnswer:
        """Run Python in a session that keeps its state from call to call: variables, imports,
        functions. The answer holds the last expression's value, then what was printed, then the
        error, then what changed in the namespace: [+added, ~rebound or changed, ?perhaps changed in
        place, −deleted]. Show the user the code readably before you call this."""
        reason = refusal(arguments.code)
        if reason:
            raise McpToolError(f"The code was not run. {reason}")
        session = await self.session()
        done = await session.evaluate(arguments.code, arguments.timeout_s, report)
        if self._own_session is not None and self.mode == "private":
            done = replace(done, late=self._own_session.take_late_output())
        form = OutputForm(self._settings.mcp_output_format, self._settings.mcp_highlight)
        answer = format_answer(done, arguments, form)
        if self._own_session is not None and self._own_session.has_left:
            ended_session = self._own_session
            self._own_session = None
            await ended_session.close()
            answer = replace(answer, text=f"{answer.text}\n{_SESSION_ENDED}")
        return answer

    async def reset(self, arguments: NoArguments, report: Report) -> ToolAnswer:
        """End the worker, a running cell included, and start a fresh one in the same environment.
        All variables are lost. Needed only if a module must be imported again, or the namespace is
        beyond repair."""
        session = await self.session()
        old_pid, new_pid = await session.call("reset", tuple[int, int], report)
        kernel = await session.call("kernel", KernelInfo)
        return _sentence(
            f"The namespace is empty. Worker {old_pid} has ended; worker {new_pid} runs on {kernel.executable}."
        )

    async def undo(self, arguments: UndoArguments, report: Report) -> ToolAnswer:
        """Restore the variables, also those changed in place, to what they were before a cell ran;
        later cells are undone too. Files that were written stay. The answer names what could not be
        restored."""
        session = await self.session()
        return _sentence(await session.call("undo", str, report, cell=arguments.cell))

    async def info(self, arguments: NoArguments, report: Report) -> ToolAnswer:
        """The Python, its environment and project, the variables with type and size, the modules,
        the worker's id; in a shared session also which cells are stale, because a variable that they
        have used is different now, and what others have run since you last asked."""
        session = await self.session()
        contents = await session.call("contents", SessionContents, seen=True)
        return ToolAnswer(describe_contents(contents, self.mode))

    async def activate(self, arguments: ActivateArguments, report: Report) -> ToolAnswer:
        """Switch to another environment. If it has its own interpreter, a new worker starts there
        and all variables are lost."""
        session = await self.session()
        kernel = await session.call("kernel", KernelInfo)
        environment = find_environment(arguments.path, Path(kernel.cwd))
        python = None if environment.python is None else str(environment.python)
        folder = None if environment.folder is None else str(environment.folder)
        kernel = await session.call("activate", KernelInfo, report, python=python, folder=folder)
        sentences = f"Activated the {environment.kind} {environment.path}: Python {kernel.python}, {kernel.executable}, worker {kernel.pid}, in {kernel.cwd}."
        if python is None:
            sentences += " It has no environment of its own, so the interpreter stays the same."
        return _sentence(sentences)

    async def pkg(self, arguments: PackageArguments, report: Report) -> ToolAnswer:
        """Manage the packages of the active environment, with uv if it is installed, otherwise with
        pip; in a project with a pyproject.toml, uv keeps that and the lock file up to date. Modules
        that are already imported stay as they are until reset."""
        session = await self.session()
        kernel = await session.call("kernel", KernelInfo)
        plan = plan_commands(
            arguments.action, arguments.packages, kernel.executable, Path(kernel.cwd)
        )
        action = f"pkg {' '.join([arguments.action, *arguments.packages])}"
        await session.call("permit", object, report, action=action)

        output_pieces: list[str] = []
        unfinished_line = ""
        exit_code = 0
        start_time = time.monotonic()

        async def on_text(text: str) -> None:
            nonlocal unfinished_line
            output_pieces.append(text)
            lines, _, line_start = (unfinished_line + text).rpartition("\n")
            unfinished_line = line_start[-MAX_PROGRESS_CHARS:]
            if lines.strip():
                await report(time.monotonic() - start_time, lines.strip()[-MAX_PROGRESS_CHARS:])

        # Each command needs the one before it, so the first failure ends them.
        for command in plan.commands:
            try:
                await on_text(f"$ {' '.join(command)}\n")
                exit_code = await run_command(command, plan.cwd, plan.environment, on_text)
            except OSError as error:
                raise McpToolError(f"{command[0]} cannot be started: {error.strerror}.") from None
            if exit_code:
                break
        await session.call("invalidate_caches", object)

        output = self.secrets.mask("".join(output_pieces))
        sections = [
            format_output(shorten(output, MAX_OUTPUT_CHARS // 2)),
            f"It failed with exit code {exit_code}." if exit_code else plan.note,
        ]
        return ToolAnswer("\n".join(filter(None, sections)), failed=exit_code != 0)

    async def log_viewer(self, arguments: LogArguments, report: Report) -> ToolAnswer:
        """Write all evaluated code and its output to a file that the user can follow live, or stop
        writing."""
        path = log_file()
        try:
            self._journal.switch(arguments.mode != "off")
        except OSError as error:
            raise McpToolError(f"{path} cannot be written: {error.strerror}.") from None
        if arguments.mode == "off":
            return _sentence("The log is off.")
        return _sentence(f"All evaluated code is written to {path}. To follow it: tail -f {path}")

    async def _join(self, session: str | None) -> SessionConnection:
        return await SessionConnection.join(session, self._folder, self.agent, self._journal)


def _sentence(text: str) -> ToolAnswer:
    return ToolAnswer(escape_controls(text))
