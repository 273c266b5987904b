"""Serves the tool calls of one agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio

from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.hidden_characters import refusal
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.mcp.answers import describe_contents, format_answer, format_output
from mahtab_tui.mcp.arguments import (
    MAX_OUTPUT_CHARS,
    ActivateArguments,
    EvalArguments,
    LogArguments,
    Mode,
    ModeArguments,
    NoArguments,
    PackageArguments,
    RewindArguments,
    UndoArguments,
)
from mahtab_tui.mcp.code_log import CodeLog, log_file
from mahtab_tui.mcp.command_output import CommandOutput
from mahtab_tui.mcp.connection import SessionConnection
from mahtab_tui.mcp.output_form import ResultForm
from mahtab_tui.mcp.own_session import OwnSession
from mahtab_tui.mcp.packages import find_environment, plan_commands, run_plan
from mahtab_tui.mcp.tools import McpTool, McpToolError, Report, ToolAnswer
from mahtab_tui.session.agent_view import SessionContents
from mahtab_tui.worker.cells.capture import shorten

if TYPE_CHECKING:
    from mahtab_tui.settings.model import Settings

_Result = TypeVar("_Result")

_SESSION_ENDED = (
    "Your session has ended, and its variables are gone. The next call starts a new one."
)


class AttachOptions(NamedTuple):
    """Whether and when the agent joins the session on the user's screen."""

    at_once: bool = False
    session: str | None = None
    """The session's name or process id, if several run."""
    never: bool = False
    socket: Path | None = None
    """The socket of the session in which the agent answers questions: it can use no other one."""


class ToolHandlers:
    """The docstring of each tool is its description for agents."""

    def __init__(self, settings: Settings, attach: AttachOptions) -> None:
        self.secrets = Secrets(settings.secrets)
        self._code_log = CodeLog(self.secrets)
        self._folder = Path.cwd()
        self._attach = attach
        self._settings = settings
        self._own_session: OwnSession | None = None
        self._shared_session: SessionConnection | None = None
        self._joining = asyncio.Lock()
        self.agent = "agent"
        self.mode: Mode = "shared" if attach.at_once else "private"

    def tools(self) -> list[McpTool[Any]]:
        """Return the tools of the server. An agent that answers in a session cannot leave it, and
        its cells are in the transcript anyway."""
        tools = self._session_tools()
        if self._attach.socket is None:
            tools += self._server_tools()
        return tools

    def _session_tools(self) -> list[McpTool[Any]]:
        """Return the tools for the session."""
        return [
            McpTool("eval", "Run Python", EvalArguments, self.eval, destructive=True),
            McpTool("reset", "Start over", NoArguments, self.reset, destructive=True),
            McpTool("undo", "Undo cells", UndoArguments, self.undo, destructive=True),
            McpTool(
                "rewind_points",
                "List points to go back to",
                NoArguments,
                self.rewind_points,
                read_only=True,
            ),
            McpTool("rewind", "Go back to a point", RewindArguments, self.rewind, destructive=True),
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
        ]

    def _server_tools(self) -> list[McpTool[Any]]:
        """Return the tools for the server itself."""
        return [
            McpTool(
                "log_viewer", "Log for the user", LogArguments, self.log_viewer, idempotent=True
            ),
            McpTool("mode", "Private or shared", ModeArguments, self.set_mode, idempotent=True),
        ]

    async def close(self) -> None:
        """Leave the sessions, and end the agent's own one."""
        if self._own_session is not None:
            await self._own_session.close()
        if self._shared_session is not None:
            await self._shared_session.close()
        self._code_log.close()

    async def session(self) -> SessionConnection:
        """Return the session in which code runs now, which is started or joined if necessary."""
        if self.mode == "private":
            if self._own_session is None:
                self._own_session = OwnSession(self._settings, self._code_log)
            return await self._own_session.connection(self.agent)
        async with self._joining:
            session = self._shared_session
            is_lost = session is not None and session.has_ended and not session.was_dismissed
            if session is None or (is_lost and self._attach.socket is not None):
                session = await self._join(self._attach.session)
                self._shared_session = session
            return session

    async def set_mode(self, arguments: ModeArguments, report: Report) -> ToolAnswer:
        """Run code in your own session (private, the default) or in the user's live session
        (shared): the same variables, visible to them, and only after their approval if they want
        that. There undo, rewind, reset, pkg and activate always wait for the user. A time limit counts from
        the start of the execution, not from the queue."""
        if arguments.mode == "private":
            self.mode = "private"
            return ToolAnswer("Code now runs in your own session.")
        if self._attach.never:
            raise McpToolError(
                "This server was started with --private, so it cannot join a session."
            )

        session = await self._rejoin(arguments.session)
        self.mode = "shared"
        return _sentence(
            f"You are {session.name} in the user's session {session.session}: its variables are theirs, and they see what you run."
        )

    async def _rejoin(self, name: str | None) -> SessionConnection:
        """Return the user's session of a name; any of them for None. Another one is left."""
        async with self._joining:
            session = self._shared_session
            if session is not None and not session.has_ended:
                is_meant = name in (None, session.session, str(session.pid))
                if is_meant:
                    return session

            joined = await self._join(name or self._attach.session)
            if session is not None:
                await session.close()
            self._shared_session = joined
            return joined

    async def eval(self, arguments: EvalArguments, report: Report) -> ToolAnswer:
        """Run Python in a session that keeps its state from call to call: variables, imports,
        functions. The answer holds the last expression's value, then what was printed, then the
        error, then what changed in the namespace: [+added, ~rebound or changed, ?perhaps changed in
        place, −deleted], in a shared session with the cell's number: [In 7: +added]. Show the user the code readably before you call this."""
        reason = refusal(arguments.code)
        if reason:
            raise McpToolError(f"The code was not run. {reason}")
        session = await self.session()
        done = await session.evaluate(arguments.code, arguments.timeout_s, report)
        if self._own_session is not None and self.mode == "private":
            done = replace(done, late=self._own_session.take_late_output())
        form = ResultForm(self._settings.mcp_output_format, self._settings.mcp_highlight)
        answer = format_answer(done, arguments, form, names_cell=self.mode == "shared")
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
        later cells are undone too, and so are written files if they are watched. The answer names
        what could not be restored."""
        session = await self.session()
        return _sentence(await session.call("undo", str, report, cell=arguments.cell))

    async def rewind_points(self, arguments: NoArguments, report: Report) -> ToolAnswer:
        """List the cells and questions before which the session can go back, the newest first, with
        what each changed: variables, files, entries of the session's conversation."""
        session = await self.session()
        return _sentence(await session.call("rewind_points", str))

    async def rewind(self, arguments: RewindArguments, report: Report) -> ToolAnswer:
        """Take the session back to before a cell or question, in one step: its variables, its files
        if they are watched, and its own conversation (not yours). By default it only describes what
        would go back and what cannot; in a shared session the user decides."""
        session = await self.session()
        point = arguments.point
        dry_run = arguments.dry_run
        return _sentence(await session.call("rewind", str, report, point=point, dry_run=dry_run))

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

        output = CommandOutput(report, self.secrets)
        exit_code = await _run_until_stopped(session, partial(run_plan, plan, output.add))
        await session.call("invalidate_caches", object)

        sections = [
            format_output(shorten(output.masked_text(), MAX_OUTPUT_CHARS // 2)),
            f"It failed with exit code {exit_code}." if exit_code else plan.note,
        ]
        return ToolAnswer("\n".join(filter(None, sections)), failed=exit_code != 0)

    async def log_viewer(self, arguments: LogArguments, report: Report) -> ToolAnswer:
        """Write all evaluated code and its output to a file that the user can follow live, or stop
        writing."""
        if arguments.mode == "off":
            self._code_log.close()
            return _sentence("The log is off.")
        path = log_file()
        try:
            self._code_log.open(in_colour=arguments.mode == "auto")
        except OSError as error:
            raise McpToolError(f"{path} cannot be written: {error.strerror}.") from None
        return _sentence(f"All evaluated code is written to {path}. To follow it: tail -f {path}")

    async def _join(self, session: str | None) -> SessionConnection:
        socket = self._attach.socket
        if socket is not None:
            return await SessionConnection.connect(
                socket, self.agent, self._code_log, can_rejoin=False
            )
        return await SessionConnection.join(session, self._folder, self.agent, self._code_log)


async def _run_until_stopped(
    session: SessionConnection, work: Callable[[], Awaitable[_Result]]
) -> _Result:
    """Do work outside of the session, and return its result; end it when the session stops the call.

    Args:
        session: The session. Nothing is done before it has accepted the call; one of an older version
            that does not know this call cannot stop the work.
        work: Does the work.

    Raises:
        McpToolError: The session does not accept the call, or has stopped it.
    """
    if not session.knows("await_stop"):
        return await work()
    accepted = asyncio.Event()

    async def work_once_accepted() -> _Result:
        await accepted.wait()
        return await work()

    working = asyncio.create_task(work_once_accepted())
    stopping = asyncio.create_task(session.call("await_stop", object, accepted=accepted))
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await stopping
        return await working
    finally:
        working.cancel()
        stopping.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(working, stopping, return_exceptions=True)


def _sentence(text: str) -> ToolAnswer:
    """Return an answer that may name files and other texts from outside."""
    return ToolAnswer(escape_controls(text))
