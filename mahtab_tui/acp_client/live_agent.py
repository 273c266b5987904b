"""An agent that runs: its process, its session, and the question that it answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mahtab_tui.acp_client.permissions import NO_ANSWER, AnswerStopped, Permissions
from mahtab_tui.acp_client.process import AgentProcess
from mahtab_tui.acp_client.protocol import (
    MODE_OPTION,
    AcpSession,
    AgentConnection,
    AnswerNews,
    ModeNews,
    Option,
    OptionsNews,
    PermissionChoice,
    ThoughtNews,
    ToolNews,
    TurnEnd,
    UsageNews,
    read_update,
)
from mahtab_tui.acp_client.turn import AgentTurn
from mahtab_tui.agent.host import Door, EarlierSession, OutsideHost
from mahtab_tui.bus.records import Usage, emit, warn
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.settings.acp_agents import AcpAgent

REOPEN_TIMEOUT_S = 30.0
"""Seconds that an agent may take to go on in an earlier session."""
OPTION_TIMEOUT_S = 60.0
"""Seconds that an agent may take to set an option."""
CANCEL_TIMEOUT_S = 5.0
"""Seconds that an agent may take to stop; then its process is ended."""
MAX_TOOLS = 1_000
"""Tool calls of one answer."""
MAX_TOOL_CHARS = 25_000_000
"""Characters of all that is kept and logged of these and of plans, however often it changes."""
MAX_OPTIONS = 100

_STOPPED = TurnEnd("cancelled", Usage())
"""The end of an answer that was stopped, as the protocol names it."""


class EarlierSessionFailed(Exception):
    """An agent has ended, or has not answered, when it should go on in an earlier session."""


class LiveAgent:
    """A running agent. Its methods are called in one event loop."""

    def __init__(self, host: OutsideHost, name: str, door: Door, max_answer_chars: int) -> None:
        """Start nothing yet.

        Args:
            host: The session.
            name: The agent's name.
            door: Where it reaches the session.
            max_answer_chars: Characters of an answer after which it is stopped.
        """
        self._host = host
        self._name = name
        self._door = door
        self._max_answer_chars = max_answer_chars
        self._process: AgentProcess
        self._connection: AgentConnection
        self.session = ""
        """The id of its session."""
        self.has_history = False
        """Whether its session has earlier questions."""
        self.options: dict[str, Option] = {}
        self.permissions = Permissions(host, name)
        self._turn: AgentTurn | None = None
        self._stopping = asyncio.Event()
        self._failure = ""
        """Why the program itself has stopped the answer, as a sentence."""
        self._session_cost = 0.0
        """US dollars that its session has cost by its last report."""
        self._answer_cost: float | None = None
        """US dollars of the answer so far; None if it has reported nothing."""

    @property
    def is_usable(self) -> bool:
        return self._process.is_usable

    @property
    def is_answering(self) -> bool:
        """Whether it answers a question that nobody has stopped. Any thread may ask."""
        return self._turn is not None and not self._stopping.is_set()

    @property
    def sees_pictures(self) -> bool:
        return self._connection.sees_pictures

    async def start(
        self, program: AcpAgent, options: Mapping[str, str], earlier: EarlierSession
    ) -> None:
        """Start the process, and a session in it.

        Args:
            program: How it is started.
            options: What is set at first.
            earlier: The session in which it goes on, if it can.

        Raises:
            ModelError: It could not be started.
            EarlierSessionFailed: It may start without that session.
        """
        try:
            environment = program.environment()
        except LookupError as error:
            raise ModelError(f"{self._name} could not be started: {error.args[0]}") from None
        folder = Path(self._host.folder or Path.cwd())
        self._process = await AgentProcess.start(
            self._name, program.command, environment, folder, self._on_update
        )
        try:
            self._connection = AgentConnection(self._name, self._process, self._ask_permission)
            await self._connection.initialize()
            await self._open_session(folder, earlier)
            for option_id, value in options.items():
                await self._set_first(option_id, value)
        except ConnectionError:
            raise ModelError(await self._end()) from None
        except BaseException:
            await self._process.close()
            raise

    async def _open_session(self, folder: Path, earlier: EarlierSession) -> None:
        """Go on in the earlier session if that is possible, else begin one.

        Raises as `start` does, and `ConnectionError`.
        """
        command = [sys.executable, "-P", "-m", "mahtab_tui", "mcp", "--attach"]
        server = [*command, str(self._door.path)]
        opened: AcpSession | None = None
        if earlier.id:
            # It may report its cost meanwhile, which is that since it began.
            self._session_cost = earlier.cost
            try:
                async with asyncio.timeout(REOPEN_TIMEOUT_S):
                    opened = await self._connection.reopen_session(folder, server, earlier.id)
            except (TimeoutError, ConnectionError):
                raise EarlierSessionFailed from None
        self.has_history = opened is not None
        if opened is None:
            self._session_cost = 0.0
            opened = await self._connection.new_session(folder, server)
        self.session = opened.id
        self._take_options(opened.options)

    async def set_option(self, option_id: str, value: str) -> None:
        """Set an option. Raises `ModelError`."""
        try:
            async with asyncio.timeout(OPTION_TIMEOUT_S):
                await self._set_option(option_id, value)
        except TimeoutError:
            raise ModelError(
                f"{self._name} did not set {option_id} within {OPTION_TIMEOUT_S:.0f} seconds."
            ) from None
        except ConnectionError:
            raise ModelError(await self._end()) from None

    async def _set_option(self, option_id: str, value: str) -> None:
        """Set an option. Raises `ModelError`, or `ConnectionError` if the agent is gone."""
        option = self.options.get(option_id)
        if option is None:
            names = ", ".join(self.options) or "none"
            raise ModelError(f"{self._name} has no option {option_id}. Options: {names}.")
        if value not in option.choices:
            values = ", ".join(option.choices)
            raise ModelError(f"{option_id} of {self._name} cannot be {value}. Values: {values}.")
        if option.is_mode:
            await self._connection.set_mode(self.session, value)
            self._take_mode(value)
        else:
            options = await self._connection.set_option(self.session, option, value)
            self._take_options(options)

    async def _set_first(self, option_id: str, value: str) -> None:
        """Set an option; what cannot be set stays as the agent has it, and the user is told."""
        try:
            await self._set_option(option_id, value)
        except ModelError as error:
            warn(self._host.log, str(error))

    def _take_options(self, options: Sequence[Option]) -> None:
        """Take over all options; a mode that is none of them stays."""
        mode = self.options.get(MODE_OPTION)
        self.options = {option.id: option for option in options[:MAX_OPTIONS]}
        if mode is not None and mode.is_mode:
            self.options.setdefault(MODE_OPTION, mode)

    def _take_mode(self, mode: str) -> None:
        if option := self.options.get(MODE_OPTION):
            self.options[MODE_OPTION] = option._replace(value=mode)

    def stop(self) -> None:
        """Stop the answer."""
        # Not if it has ended meanwhile: the next question may have begun on its thread.
        if self._turn is not None:
            self._host.cancelled.set()
        self._stopping.set()
        self.permissions.withdraw()

    async def answer(self, turn: AgentTurn, text: str, pictures: Sequence[EncodedPicture]) -> str:
        """Let the agent answer, and log what it does.

        Args:
            turn: Logs it.
            text: The question.
            pictures: Sent with it.

        Returns:
            How the answer has ended, as in `records.Agent`.

        Raises:
            ModelError: It could not answer.
        """
        self._begin_answer(turn)
        asking = asyncio.create_task(self._connection.prompt(self.session, text, pictures))
        end = _STOPPED
        try:
            end = await self._wait_for_end(asking)
        finally:
            self._turn = None
            self.permissions.withdraw()
            asking.cancel()
            self._count(end.usage.changed(turn=turn.number, model=self._name, source="agent"))
            # Also those for whose results the agent has not waited.
            await asyncio.to_thread(self._door.cancel_calls)
        if self._failure:
            raise ModelError(self._failure)
        return self._report_end(end.reason)

    def _begin_answer(self, turn: AgentTurn) -> None:
        """Forget the last answer."""
        self._stopping.clear()
        self._failure = ""
        self._answer_cost = None
        self.permissions.begin_answer()
        self._process.message_count = 0
        self._turn = turn
        self.has_history = True

    async def _wait_for_end(self, asking: asyncio.Task[TurnEnd]) -> TurnEnd:
        """Wait until the agent has answered, or the answer is stopped.

        Args:
            asking: The request, which returns the end of the answer.

        Returns:
            The end that the agent reports; `_STOPPED` if it was stopped, and reports none.

        Raises:
            ModelError: The agent could not answer.
        """
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await self._cancel(asking)
            return asking.result() if asking.done() else _STOPPED
        except ConnectionError:
            reason = await self._end()
            if not self._stopping.is_set():
                raise ModelError(f"{reason} The next question starts it again.") from None
        except ModelError:
            # Some agents answer a question that is stopped with an error.
            if not self._stopping.is_set():
                raise
        finally:
            stopping.cancel()
        return _STOPPED

    def _report_end(self, reason: str) -> str:
        """Return how an answer has ended, as in `records.Agent`; say so if it ended early.

        Args:
            reason: The agent's own word for it.
        """
        if self._stopping.is_set() or reason == _STOPPED.reason:
            return "stopped"
        if reason == "refusal":
            warn(self._host.log, f"{self._name} does not answer this question.")
        elif reason != "end_turn":
            warn(self._host.log, f"{self._name} has ended its answer early: {reason}.")
        return "done"

    async def _cancel(self, asking: asyncio.Task[TurnEnd]) -> None:
        """Stop the answer, and the process if it does not stop."""
        await asyncio.to_thread(self._door.cancel_calls)
        cancelling = asyncio.create_task(self._connection.cancel(self.session))
        await asyncio.wait((asking,), timeout=CANCEL_TIMEOUT_S)
        cancelling.cancel()
        if not asking.done():
            await self.close()
            warn(
                self._host.log,
                f"{self._name} did not stop, and was ended. The next question starts it again.",
            )

    async def _end(self) -> str:
        """End the process, because it cannot go on; return the reason as a sentence."""
        reason = await self._process.describe_end()
        await self.close()
        return reason

    async def close(self) -> None:
        """End the process. That goes on if whoever waits for it is cancelled."""
        await self._connection.close()

    def _fail(self, sentence: str) -> None:
        """Stop the answer, because it must not go on."""
        self._failure = self._failure or sentence
        self.stop()

    def _on_update(self, params: object) -> None:
        """Follow what the agent tells."""
        update = read_update(params)
        match update:
            case None:
                return
            case OptionsNews(options):
                self._take_options(options)
            case ModeNews(mode):
                self._take_mode(mode)
            case UsageNews(cost=float(cost)):
                self._follow_cost(cost)
        # What comes after the end of an answer belongs to none.
        turn = self._turn
        if turn is None or self._stopping.is_set():
            return
        if isinstance(update, AnswerNews | ThoughtNews):
            # One more than allowed ends the answer.
            free_chars = self._max_answer_chars - turn.char_count + 1
            update = update._replace(text=update.text[:free_chars])
        turn.follow(update)
        self._check_limits(turn)

    def _check_limits(self, turn: AgentTurn) -> None:
        """Stop an answer that is too much."""
        if turn.tool_count > MAX_TOOLS:
            self._fail(f"{self._name} was stopped: it has made more than {MAX_TOOLS:,} tool calls.")
        if turn.tool_char_count > MAX_TOOL_CHARS:
            self._fail(
                f"{self._name} was stopped: it has said too much about its tool calls and plans."
            )
        if turn.char_count > self._max_answer_chars:
            self._fail(
                f"{self._name} was stopped: its answer has more than {self._max_answer_chars:,} characters (max_answer_chars)."
            )

    def _follow_cost(self, cost: float) -> None:
        """Note what the agent's session has cost, and stop it at the limit."""
        # What counts less than before has begun anew, from zero.
        increase = cost - self._session_cost if cost >= self._session_cost else cost
        self._session_cost = cost
        if self._turn is None:
            return
        self._answer_cost = (self._answer_cost or 0.0) + increase
        usd_left = self._host.spending.usd_left
        if usd_left is not None and self._answer_cost >= usd_left:
            self._fail(
                f"{self._name} was stopped, because the session's limit of ${self._host.spending.max_usd:,.2f} (max_usd) is reached."
            )

    def _count(self, usage: Usage) -> None:
        """Count what an answer has used, with its cost if the agent has named it."""
        if self._answer_cost is not None:
            usage = usage.changed(cost=self._answer_cost)
        self._host.spending.count(usage)
        emit(self._host.log, usage)

    async def _ask_permission(self, news: ToolNews, choices: Sequence[PermissionChoice]) -> str:
        """Return the id of the answer about one of the agent's own tools; empty for none."""
        turn = self._turn
        if turn is None or self._stopping.is_set():
            return NO_ANSWER
        tool = turn.tool(news)
        self._check_limits(turn)

        def is_over() -> bool:
            return self._turn is not turn or self._stopping.is_set()

        try:
            return await self.permissions.ask(turn.number, tool, choices, is_over=is_over)
        except AnswerStopped:
            # The question to the user is also withdrawn when the answer ends.
            if self._turn is turn:
                self.stop()
            return NO_ANSWER
