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
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.sanitize import refusal
from mahtab_tui.bus.terminal_screen import OVERWRITTEN, escape_for_model, escape_output
from mahtab_tui.kernel.base import CHANGE_SIGNS, Change, KernelInfo, Status, Variable
from mahtab_tui.kernel.cells import GRACE, pictures, pieces
from mahtab_tui.kernel.launch import environment_prefix
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
from mahtab_tui.session.agent_calls import Evaluation, SessionContents
from mahtab_tui.worker.capture import shorten

if TYPE_CHECKING:
    from mahtab_tui.settings.model import Settings

MOST_VARIABLES = 200


def describe_contents(contents: SessionContents, mode: Literal["private", "shared"]) -> str:
    kernel = contents.kernel
    since = "you joined" if mode == "shared" else "your session started"
    modules, rows = list[str](), list[str]()
    for each in contents.variables:
        name = shorten_line(each.name)
        if not each.underscored and each.kind == "module":
            modules.append(name)
        elif not each.underscored:
            text = f"{name}: {shorten_line(each.type)} {shorten_line(each.summary)}"
            rows.append(text.rstrip())
    lines = [
        f"Python {kernel.python} · {kernel.executable} · worker {kernel.pid} · {mode}",
        f"environment: {environment_prefix(kernel.executable) or 'none of its own'}",
        f"project: {find_project(Path(kernel.cwd)) or 'none'} · working directory: {kernel.cwd}",
        f"{contents.cells} {'cell' if contents.cells == 1 else 'cells'} in {round(contents.busy, 3):g} s · {contents.alive:.1f} s since {since}",
        f"modules: {', '.join(_limit_rows(modules)) or 'none'}",
        "variables:" if rows else "variables: none",
        *(f"  {row}" for row in _limit_rows(rows)),
    ]
    if contents.others:
        lines += ["run by others since you last asked:", *(f"  {line}" for line in contents.others)]
    return escape_for_model("\n".join(lines))


def _limit_rows(rows: list[str]) -> list[str]:
    more = len(rows) - MOST_VARIABLES
    return rows if more <= 0 else [*rows[:MOST_VARIABLES], f"… and {more:,} more"]


OUTPUT = 20_000

FRAMES_HEAD, FRAMES_TAIL = 6, 24

ERROR = 4_000
"""Characters of a traceback that are always allowed."""

CHANGES = 20

SUMMARY = 60


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
        OUTPUT,
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
    parts = {"value": "", "stdout": "", "traceback": "", "display": ""}
    for kind, text in pieces(result):
        parts[kind] += text
    most = arguments.max_output
    value = shorten((parts["display"] + parts["value"]).rstrip("\n"), most // 2)
    error = shorten(shorten_traceback(parts["traceback"].rstrip("\n")), max(most, ERROR) // 2)
    edited = fenced(escape_for_model(done.edited)) if done.edited else ""
    sections = [
        edited and f"The user edited the code. What ran:\n{edited}",
        escape_for_model(describe_end(done, arguments.timeout_s)),
        form.write("value", value),
        form.write("stdout", shorten(parts["stdout"], most // 2)),
        OVERWRITTEN if result.rewritten else "",
        form.write("traceback", error),
        done.late and f"Printed since the last call:\n{format_output(done.late)}",
        format_changes(result.changes),
    ]
    text = "\n".join(section.rstrip("\n") for section in sections if section)
    text = text or "(no value, no output)"
    failed = result.status is not Status.OK or done.declined != "" or done.running or done.timed_out
    return ToolAnswer(text, pictures(result), failed=failed)


def format_output(text: str) -> str:
    return escape_output(strip_colours(text)) if text else ""


def describe_end(done: Evaluation, timeout: float | None) -> str:
    """Return a sentence for any end except a normal one."""
    over = f"Timed out after {timeout:g} s: " if done.timed_out and timeout is not None else ""
    gone = "All variables are gone"
    if done.restores:
        gone = "Only saved variables come back (info lists them)"
    match done.result.status:
        case _ if done.declined:
            return f"The code did not run: {done.declined}."
        case _ if done.running:
            return f"{over}the code was interrupted, but did not end within {GRACE:g} s and is still running. Output so far:"
        case Status.INTERRUPTED:
            return f"{over}{'t' if over else 'T'}he code was interrupted. Variables are as it left them."
        case Status.KILLED:
            reason = done.result.detail
            if over:
                reason = f"the code did not end within {GRACE:g} s after its interrupt, so the worker was killed."
            return f"{over}{reason} {gone}; a new worker is ready."
        case Status.DIED:
            why = f"{over}the code was interrupted. " if over else ""
            return f"{why}{done.result.detail} {gone}; a new worker starts with the next call."
        case _:
            return f"{over}the code was interrupted, and then ended by itself." if over else ""


def format_changes(changes: Sequence[Change]) -> str:
    """``[+x int 5, ~rows list 3 items, −old]``"""
    if not changes:
        return ""
    listed = []
    for change in changes[:CHANGES]:
        words = [CHANGE_SIGNS[change.change] + shorten_line(change.name)]
        if (variable := change.variable) is not None:
            words += _describe_variable(variable, change)
        listed.append(" ".join(filter(None, words)))
    more = len(changes) - len(listed)
    return f"[{', '.join(listed)}{f', and {more:,} more' if more else ''}]"


def _describe_variable(variable: Variable, change: Change) -> list[str]:
    """Return a variable's type and summary, or only the fields of an object that have changed."""
    before = change.before
    if before is not None and before.type == variable.type:
        fields = changed_fields(before.summary, variable.summary)
        if fields:
            return [f"{shorten_line(variable.type)}({shorten_line(fields, SUMMARY)})"]
    words = [shorten_line(variable.type), shorten_line(variable.summary, SUMMARY)]
    return [*words, shorten_line(change.columns, SUMMARY)]


def shorten_traceback(text: str) -> str:
    """Remove the middle, because the frames of a recursion repeat themselves."""
    lines = text.split("\n")
    omitted = len(lines) - FRAMES_HEAD - FRAMES_TAIL
    if omitted <= 1:
        return text
    middle = f"  … {omitted} lines left out …"
    return "\n".join([*lines[:FRAMES_HEAD], middle, *lines[-FRAMES_TAIL:]])


PACKAGE_OUTPUT_CHARS = 2_000

_SESSION_ENDED = (
    "Your session has ended, and its variables are gone. The next call starts a new one."
)


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
    mode: Literal["private", "shared"] = Field(
        description="private: your own session; shared: the session on the user's screen"
    )
    session: str | None = Field(
        None, description="The session's name or process id, if several run"
    )


class AttachOptions(NamedTuple):
    at_once: bool = False
    session: str | None = None
    never: bool = False


class ToolHandlers:
    """The docstring of each tool is its description for agents."""

    def __init__(self, settings: Settings, attach: AttachOptions) -> None:
        self.secrets = Secrets(settings.secrets)
        self._journal = Journal(self.secrets)
        self._folder = Path.cwd()
        self._attach = attach
        self._settings = settings
        self._own: OwnSession | None = None
        self._shared: SessionConnection | None = None
        self._joining = asyncio.Lock()
        self.agent = "agent"
        self.mode: Literal["private", "shared"] = "shared" if attach.at_once else "private"

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
        if self._own is not None:
            await self._own.close()
        if self._shared is not None:
            await self._shared.close()
        self._journal.switch(False)

    async def session(self) -> SessionConnection:
        if self.mode == "private":
            if self._own is None:
                self._own = OwnSession(self._settings, self._journal)
            return await self._own.connection(self.agent)
        async with self._joining:
            if self._shared is None:
                self._shared = await self._join(self._attach.session)
            return self._shared

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
        wanted = arguments.session
        async with self._joining:
            now = self._shared
            if now is None or now.has_ended or wanted not in (None, now.session, str(now.pid)):
                joined = await self._join(wanted or self._attach.session)
                if now is not None:
                    await now.close()
                self._shared = now = joined
        self.mode = "shared"
        return _sentence(
            f"You are {now.name} in the user's session {now.session}: its variables are theirs, and they see what you run."
        )

    async def eval(self, arguments: EvalArguments, report: Report) -> ToolAnswer:
        """Run Python in a session that keeps its state from call to call: variables, imports,
        functions. The answer holds the last expression's value, then what was printed, then the
        error, then what changed in the namespace: [+added, ~rebound or changed, ?perhaps changed in
        place, −deleted]. Show the user the code readably before you call this."""
        if why := refusal(arguments.code):
            raise McpToolError(f"The code was not run. {why}")
        session = await self.session()
        done = await session.evaluate(arguments.code, arguments.timeout_s, report)
        if self._own is not None and self.mode == "private":
            done = replace(done, late=self._own.take_late_output())
        form = OutputForm(self._settings.mcp_output_format, self._settings.mcp_highlight)
        answer = format_answer(done, arguments, form)
        if self._own is not None and self._own.has_left:
            ended_session = self._own
            self._own = None
            await ended_session.close()
            answer = replace(answer, text=f"{answer.text}\n{_SESSION_ENDED}")
        return answer

    async def reset(self, arguments: NoArguments, report: Report) -> ToolAnswer:
        """End the worker, a running cell included, and start a fresh one in the same environment.
        All variables are lost. Needed only if a module must be imported again, or the namespace is
        beyond repair."""
        session = await self.session()
        old, new = await session.call("reset", tuple[int, int], report)
        kernel = await session.call("kernel", KernelInfo)
        return _sentence(
            f"The namespace is empty. Worker {old} has ended; worker {new} runs on {kernel.executable}."
        )

    async def undo(self, arguments: UndoArguments, report: Report) -> ToolAnswer:
        """Restore the variables, also those changed in place, to what they were before a cell ran;
        later cells are undone too. Files that were written stay. The answer names what could not be
        restored."""
        session = await self.session()
        return _sentence(await session.call("undo", str, report, cell=arguments.cell))

    async def info(self, arguments: NoArguments, report: Report) -> ToolAnswer:
        """The Python, its environment and project, the variables with type and size, the modules,
        the worker's id, and what others have run since you last asked."""
        session = await self.session()
        contents = await session.call("contents", SessionContents, seen=True)
        return ToolAnswer(describe_contents(contents, self.mode))

    async def activate(self, arguments: ActivateArguments, report: Report) -> ToolAnswer:
        """Switch to another environment. If it has its own interpreter, a new worker starts there
        and all variables are lost."""
        session = await self.session()
        kernel = await session.call("kernel", KernelInfo)
        found = find_environment(arguments.path, Path(kernel.cwd))
        python = None if found.python is None else str(found.python)
        folder = None if found.folder is None else str(found.folder)
        now = await session.call("activate", KernelInfo, report, python=python, folder=folder)
        facts = f"Activated the {found.kind} {found.path}: Python {now.python}, {now.executable}, worker {now.pid}, in {now.cwd}."
        if python is None:
            facts += " It has no environment of its own, so the interpreter stays the same."
        return _sentence(facts)

    async def pkg(self, arguments: PackageArguments, report: Report) -> ToolAnswer:
        """Manage the packages of the active environment, with uv if it is installed, otherwise with
        pip; in a project with a pyproject.toml, uv keeps that and the lock file up to date. Modules
        that are already imported stay as they are until reset."""
        session = await self.session()
        kernel = await session.call("kernel", KernelInfo)
        steps = plan_commands(
            arguments.action, arguments.packages, kernel.executable, Path(kernel.cwd)
        )
        action = f"pkg {' '.join([arguments.action, *arguments.packages])}"
        await session.call("permit", object, report, action=action)
        written: list[str] = []
        line = ""
        code = 0
        start = time.monotonic()

        async def on_text(text: str) -> None:
            nonlocal line
            written.append(text)
            lines, _, rest = (line + text).rpartition("\n")
            line = rest[-PACKAGE_OUTPUT_CHARS:]
            if lines.strip():
                await report(time.monotonic() - start, lines.strip()[-PACKAGE_OUTPUT_CHARS:])

        for command in steps.commands:
            try:
                await on_text(f"$ {' '.join(command)}\n")
                code = await run_command(command, steps.cwd, steps.environment, on_text)
            except OSError as error:
                raise McpToolError(f"{command[0]} cannot be started: {error.strerror}.") from None
            if code:
                break
        await session.call("invalidate_caches", object)
        whole = self.secrets.mask("".join(written))
        shown = format_output(shorten(whole, OUTPUT // 2))
        ending = f"It failed with exit code {code}." if code else steps.note
        return ToolAnswer("\n".join(part for part in (shown, ending) if part), failed=code != 0)

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
    return ToolAnswer(escape_for_model(text))
