"""Serves the calls of the agents that joined a session: they run code (`agent_cell.py`), act on the
kernel and the session, and look at both (`agent_view.py`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from mahtab_tui.bus.hidden_characters import refusal
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.restorations import describe_restoration
from mahtab_tui.kernel.values import Detail, KernelInfo, Lock
from mahtab_tui.session.agent_cell import AgentCell, Evaluation, runs_nested
from mahtab_tui.session.agent_rewinds import (
    describe_file_steps,
    describe_points,
    describe_preview,
    describe_rewind,
    join_names,
    name_parts,
)
from mahtab_tui.session.agent_view import AgentView, SessionContents
from mahtab_tui.session.info import PLAN_REFUSAL
from mahtab_tui.session.joined_agents import (
    AgentCall,
    AgentCallDeclined,
    AgentCallRefused,
    JoinedAgent,
)
from mahtab_tui.session.session import Session
from mahtab_tui.session.undo_control import name_cells

MAX_CODE_CHARS = 200_000
"""Characters of code that an agent can run in the user's session."""
ACTIONS = frozenset(("evaluate", "reset", "undo", "rewind", "activate", "permit", "await_stop"))
"""Calls that run or change something."""


class _ForkRun:
    """Runs an agent's code in a locked fork, and keeps the answer if the fork allows all of it."""

    def __init__(self, make_cell: Callable[[Lock], AgentCell]) -> None:
        """
        Args:
            make_cell: Returns a cell with the code, confined by a lock.
        """
        self._make_cell = make_cell
        self.answer: Evaluation | None = None
        """None if the code has not run, or needs more than the fork allows."""

    def run(self, lock: Lock) -> str:
        """Run the code, and return what it needs that the fork does not allow, as a clause."""
        cell = self._make_cell(lock)
        answer = cell.answer()
        if not cell.needs:
            self.answer = answer
        return cell.needs


class AgentCalls:
    """Serves the calls of a session's agents, each on a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._view = AgentView(session)
        self._functions: dict[str, Callable[..., Any]] = {
            "evaluate": self._evaluate,
            "reset": self._reset,
            "undo": self._undo,
            "rewind_points": self._rewind_points,
            "rewind": self._rewind,
            "activate": self._activate,
            "permit": self._permit,
            "await_stop": self._await_stop,
            "invalidate_caches": self._invalidate_caches,
            "contents": self._contents,
            "kernel": self._kernel_info,
            "inspect": self._inspect,
        }

    @property
    def names(self) -> list[str]:
        """What agents can call."""
        return list(self._functions)

    def serve(self, call: AgentCall, name: str, args: Mapping[str, Any]) -> Any:
        """Answer a call, on a thread of its own.

        Args:
            call: The call.
            name: What the agent calls.
            args: Its keyword arguments.

        Returns:
            A JSON value without secrets.

        Raises:
            AgentCallRefused: The call is refused, or failed.
        """
        function = self._functions.get(name)
        if function is None:
            raise AgentCallRefused(f"The session has nothing called {name!r}.")
        call.agent.calls.add(call)
        try:
            if call.cancelled or call.agent.has_left:
                raise AgentCallRefused("The call was cancelled.")
            is_late = call.agent.is_model and not self._session.agent.is_answering
            if is_late and name in ACTIONS:
                raise AgentCallRefused("No question is being answered, so nothing is done.")
            answer = to_jsonable_python(function(call, **args))
            return self._session.secrets.redact_value(answer)
        except AgentCallDeclined as error:
            if error.is_stop:
                self._stop_agent(call.agent)
            raise
        except AgentCallRefused:
            raise
        except Exception as error:  # the agent needs an answer, whatever went wrong
            sentence = str(error)
            if not isinstance(error, KernelError):
                sentence = f"The session failed: {type(error).__name__}: {sentence}"
            raise AgentCallRefused(self._session.secrets.redact_for_model(sentence)) from None
        finally:
            call.agent.calls.discard(call)

    def _evaluate(self, call: AgentCall, code: str, timeout: float | None = None) -> Evaluation:
        """Run code as a cell, if the user's settings or the user allow it.

        Args:
            call: The agent's call.
            code: The code.
            timeout: Seconds until it is interrupted; None for no limit.
        """
        # Loaded with the first code, as the rules are.
        from mahtab_tui.session.code_rules import CodeRequest

        session = self._session
        received_code = self._normalize_code(call.agent, code)
        used_names = session.private.uses(received_code)

        def make_cell(lock: Lock) -> AgentCell:
            request = session.joined_agents.new_call_id()
            return AgentCell(session, call, request, received_code, timeout, used_names, lock)

        fork_run = _ForkRun(make_cell)
        code_request = CodeRequest(
            received_code,
            author=call.agent.name,
            private=used_names,
            trusted=session.info.approval == "auto" or call.agent.trusted,
            planning=self._is_planning(call.agent),
            can_ask=not call.agent.owns_session,
        )
        permission = session.agent.rules.clear_code(code_request, fork_run.run)
        if permission.action == "deny":
            return _decline(permission.reason)
        if fork_run.answer is not None:
            return fork_run.answer
        if permission.action != "ask":
            # Only code that the user has allowed may change protected files.
            return make_cell("guard").answer()

        request = session.joined_agents.new_call_id()
        try:
            allowed_code = self._ask_user(call, request, received_code, permission.reason)
        except AgentCallDeclined as error:
            if error.is_stop:
                self._stop_agent(call.agent)
            return Evaluation(declined=str(error))
        # The cell has the id of the request, so that the transcript shows both in one place.
        cell = AgentCell(session, call, request, allowed_code, timeout, used_names, None)
        is_edited = allowed_code != received_code
        return replace(cell.answer(), edited=allowed_code if is_edited else "")

    def _ask_user(self, call: AgentCall, request: str, code: str, reason: str) -> str:
        """Return the code that the user allows, perhaps an edited one.

        Raises `AgentCallDeclined` and `AgentCallRefused`.

        Args:
            call: The agent's call.
            request: The id of the request.
            code: The agent's code.
            reason: Why the user is asked, as a clause; may be empty.
        """
        if not reason and self._session.info.approval == "review":
            reason = "changes of agents are not reviewed afterwards"
        agents = self._session.joined_agents
        return agents.request_approval(call, request, code, reason=reason or None)

    def _reset(self, call: AgentCall) -> tuple[int, int]:
        """Reset the kernel; returns the ids of the old and the new process."""
        session = self._session
        self._approve_action(call, "# start over: a fresh kernel, all variables are lost")
        old_pid = session.kernel.info().pid
        session.notice(f"{call.agent.name} resets the kernel.")
        session.cells.reset_kernel()
        return old_pid, session.kernel.info().pid

    def _undo(self, call: AgentCall, cell: int | None) -> str:
        """Undo a cell and those after it; by default what ran last. Returns a sentence."""
        session = self._session
        undo = session.undo
        first_cell = undo.last_step() if cell is None else cell
        cells = name_cells(undo.cells_from(first_cell))
        preview = session.kernel.preview_undo(first_cell)
        changed_names = [change.name for change in preview.changes]
        names = join_names([*changed_names, *describe_file_steps(preview)])
        self._approve_action(call, f"# undo {cells}: {names or 'no variable changes'}")
        session.notice(f"{call.agent.name} undoes {cells}.")
        restoration = undo.undo(first_cell, during_turn=call.agent.is_model)
        return describe_restoration(restoration, f"before cell {first_cell} ran")

    def _rewind_points(self, call: AgentCall) -> str:
        """Describe the points to which the session can be rewound, a line each."""
        points = self._session.rewinding.points()
        hidden = {point.entry for point in points if point.entry in self._session.agent.hidden}
        return describe_points(points, hidden, self._view.first_line)

    def _rewind(self, call: AgentCall, point: str, dry_run: bool) -> str:
        """Go back to before a point, or describe what that would do. Returns sentences."""
        session = self._session
        rewinding = session.rewinding
        preview = rewinding.preview(rewinding.find(point))
        if dry_run or preview.does_nothing:
            return describe_preview(preview)
        name = preview.point.name
        self._approve_action(call, f"# rewind to before {name}: {name_parts(preview)}")
        session.notice(f"{call.agent.name} rewinds the session to before {name}.")
        return describe_rewind(preview, rewinding.rewind(preview))

    def _activate(self, call: AgentCall, python: str | None, folder: str | None) -> KernelInfo:
        """Switch to another interpreter, to another working directory, or to both."""
        session = self._session
        action = f"# switch to {' in '.join(filter(None, (python, folder)))}"
        if python and session.namespace_store.can_restore:
            action += "; only saved variables come back"
        elif python:
            action += "; all variables are lost"
        self._approve_action(call, action)
        if python is not None:
            session.cells.change_kernel(lambda: session.kernel.activate(python))
        if folder is not None:
            session.kernel.change_directory(folder)
        info = session.kernel.info()
        environment = f"{info.executable}, in {info.cwd}"
        session.notice(f"{call.agent.name} has changed the environment: {environment}.")
        return info

    def _permit(self, call: AgentCall, action: str) -> None:
        """Ask about an action that the agent's server will take itself."""
        self._approve_action(call, f"# {action}")
        self._session.notice(f"{call.agent.name}: {action}")

    def _await_stop(self, call: AgentCall) -> None:
        """Wait while the agent's server carries out an action that `_permit` has allowed.

        The server begins when this reports progress, and cancels the call at the end of the action. If
        the session stops the call first, the server must end the action.

        Raises:
            AgentCallRefused: The call was stopped, by either of them.
        """
        stopped = threading.Event()
        with call.stoppable(stopped.set):
            call.report("can be stopped")
            stopped.wait()
        raise AgentCallRefused("The call was cancelled.")

    def _inspect(self, call: AgentCall, name: str) -> Detail:
        """Describe a variable without running code. Raises `AgentCallRefused` if it is private."""
        session = self._session
        session.private.refresh()
        if session.private.is_private(name):
            raise AgentCallRefused(f"{name} is private: the user does not share what it contains.")
        return session.kernel.inspect(name, run_code=False)

    def _contents(self, call: AgentCall, seen: bool) -> SessionContents:
        """Describe the session to an agent; see `AgentView.contents`."""
        return self._view.contents(call.agent, seen=seen)

    def _kernel_info(self, call: AgentCall) -> KernelInfo:
        return self._session.kernel.info()

    def _invalidate_caches(self, call: AgentCall) -> None:
        """Let the kernel see modules that the agent's server has installed."""
        self._session.cells.run_unrecorded(
            "__import__('importlib').invalidate_caches()",
            is_nested=partial(runs_nested, self._session, call),
            is_cancelled=lambda: call.cancelled,
        )

    def _approve_action(self, call: AgentCall, action: str) -> None:
        """Ask about an action on the environment, except in the agent's own session.

        Raises `AgentCallDeclined` and `AgentCallRefused`.
        """
        if call.agent.owns_session:
            return
        if self._is_planning(call.agent):
            raise AgentCallDeclined(f"declined: {PLAN_REFUSAL}")
        agents = self._session.joined_agents
        action = self._normalize_code(call.agent, action)
        agents.request_approval(call, agents.new_call_id(), action, is_code=False)

    def _stop_agent(self, agent: JoinedAgent) -> None:
        """Stop the answer of an agent.

        One that does not answer hears only that its call was declined.
        """
        if agent.is_model:
            self._session.agent.stop_answer()

    def _is_planning(self, agent: JoinedAgent) -> bool:
        """Return whether the agent answers, and may only read, because the user plans."""
        return agent.is_model and self._session.info.planning

    def _normalize_code(self, agent: JoinedAgent, code: str) -> str:
        """Convert line breaks.

        Raises `AgentCallRefused` if code contains dangerous characters, or is more than a user can
        be shown.
        """
        if len(code) > MAX_CODE_CHARS and not agent.owns_session:
            reason = f"It has {len(code):,} characters, and {MAX_CODE_CHARS:,} is the most: write data to a file, and read it there."
        else:
            code = code.replace("\r\n", "\n")
            reason = refusal(code)
        if reason:
            self._session.notice(f"Code from {agent.name} was not run. {reason}", "warning")
            raise AgentCallRefused(f"The code was not run. {reason}")
        return code


def _decline(reason: str) -> Evaluation:
    """Return the answer about code that may not run.

    Args:
        reason: A sentence.
    """
    clause = reason.rstrip(".")
    return Evaluation(declined=f"declined: {clause[0].lower()}{clause[1:]}")
