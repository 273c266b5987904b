"""An agent of another program, which answers questions one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from mahtab_tui.acp_client.briefing import write_question
from mahtab_tui.acp_client.live_agent import EarlierSessionFailed, LiveAgent
from mahtab_tui.acp_client.process import ENDING_TASK, EXIT_GRACE_S
from mahtab_tui.acp_client.protocol import Option
from mahtab_tui.acp_client.turn import AgentTurn
from mahtab_tui.agent.host import Door, EarlierSession, OutsideHost, StoredMessage
from mahtab_tui.bus.records import AgentSession, Notice, emit
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.ledger import OverBudget
from mahtab_tui.settings.acp_agents import AcpAgent
from mahtab_tui.system import RESULT_CHECK_INTERVAL_S, start_thread, wait_for_result

START_TIMEOUT_S = 60.0
"""Seconds that an agent may take until it has a session."""
CLOSE_TIMEOUT_S = 4 * EXIT_GRACE_S
"""Seconds that closing a session waits for the agent's end. An agent that does not listen takes three
times its grace until it and its children are killed."""
MAX_SENT_CHARS = 200_000
"""Characters of earlier questions in which descriptions of variables are looked up."""

T = TypeVar("T")


class _GatheredQuestion(NamedTuple):
    """A question, and what its agent gets with it."""

    live: LiveAgent
    """The agent, with a session that has nothing but what the user still shares."""
    question: StoredMessage
    earlier_messages: Sequence[StoredMessage]
    """What was said before the question, and the agent has not got yet."""
    sent: str
    """The end of what the agent has got."""


class OutsideAgent:
    """Answers questions by another program's agent.

    Any thread may call it. The process starts when it is first needed, and again after it has
    ended.
    """

    def __init__(
        self, host: OutsideHost, name: str, program: AcpAgent, max_answer_chars: int
    ) -> None:
        """
        Args:
            host: The session.
            name: The agent's name in the settings.
            program: How it is started.
            max_answer_chars: Characters of an answer after which it is stopped.
        """
        self.name = name
        self._host = host
        self._program = program
        self._max_answer_chars = max_answer_chars
        self._options = dict(program.options)
        """What the user has set."""
        self._sent = ""
        """The end of what the agent has got."""
        self._door: Door | None = None
        self._door_lock = threading.Lock()
        """Held while the door is opened."""
        self._turn_lock = threading.Lock()
        """Held while a question is answered."""
        self._turn_end_lock = threading.Lock()
        """Held while an answer ends, and by a stop that must not reach the next question."""
        self._ending_lock = threading.Lock()
        """Held while the loop gets work, and while closing begins, after which it gets none."""
        self._ending: Future[None] | None = None
        """The end of the processes and of the loop, which then gets no more work."""
        # What follows is used in the loop only. Its thread starts the process, which ends with it.
        self._loop = asyncio.new_event_loop()
        self._live: LiveAgent | None = None
        self._answering: asyncio.Task[str] | None = None
        self._starting = asyncio.Lock()
        start_thread("acp", self._run_loop)

    def ask_sync(
        self, prompt: str, *, logged_turn: int, cancellation: Cancellation | None = None
    ) -> str:
        """Ask once earlier questions are answered, and wait for the final words.

        Args:
            prompt: The question, which is on the bus already.
            logged_turn: Its number.
            cancellation: Stops this question, and no other one.

        Raises:
            ModelError: The agent could not answer, which was logged.
            CancelledError: The question was cancelled, or the agent closed, before the agent got it.
        """
        cancellation = cancellation or Cancellation()
        while not self._turn_lock.acquire(timeout=RESULT_CHECK_INTERVAL_S):
            if cancellation.cancelled:
                raise CancelledError
        try:
            self._host.cancelled.clear()
            if cancellation.cancelled or self._host.is_withdrawn(logged_turn):
                raise CancelledError
            try:
                answer = self._submit(self._answer(make_encodable(prompt), logged_turn))
            except ModelError:
                raise CancelledError from None
            cancellation.on_cancel(partial(self._stop_unless_done, answer))
            return wait_for_result(answer)
        except KeyboardInterrupt:
            self.stop()
            raise
        finally:
            cancellation.on_cancel(None)
            with self._turn_end_lock:
                self._turn_lock.release()

    @property
    def is_answering(self) -> bool:
        """Whether a question is being answered that nobody has stopped."""
        live = self._live
        return live is not None and live.is_answering

    def prepare(self) -> None:
        """Start the agent. Waits. Raises `ModelError`."""
        self._wait(self._start())

    def options(self) -> Sequence[Option]:
        """Return what the user may set. Waits. Raises `ModelError`."""
        live = self._wait(self._start())
        return list(live.options.values())

    def set_option(self, option_id: str, value: str) -> None:
        """Set an option for the rest of the session. Waits. Raises `ModelError`."""

        async def work() -> None:
            live = await self._start()
            await live.set_option(option_id, value)
            self._options[option_id] = value

        self._wait(work())

    def stop(self) -> None:
        """Stop the answer, and what the agent runs in the session."""
        self._host.cancelled.set()

        def stop_in_loop() -> None:
            if self._answering is not None and self._live is None:
                self._answering.cancel()  # it has not started yet
            elif self._live is not None:
                self._live.stop()

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(stop_in_loop)
        self._host.interrupt()

    def _stop_unless_done(self, answer: Future[str]) -> None:
        with self._turn_end_lock:
            if not answer.done():
                self.stop()

    def close(self) -> None:
        """End the agent. Waits for a moment."""
        self.stop()
        with self._ending_lock:
            if self._ending is None:
                self._ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with suppress(TimeoutError):
            self._ending.result(CLOSE_TIMEOUT_S)
        if self._door is not None:
            self._door.close()

    async def _end(self) -> None:
        """End the processes, and then the loop, however long that takes."""
        own_task = asyncio.current_task()
        # Such as a start, whose process ends with it.
        for task in asyncio.all_tasks() - {own_task}:
            if task.get_name() != ENDING_TASK:
                task.cancel()
        if self._live is not None:
            await self._live.close()
        # What is cancelled may have begun to end a process.
        while tasks := asyncio.all_tasks() - {own_task}:
            await asyncio.gather(*tasks, return_exceptions=True)
        self._loop.call_soon(self._loop.stop)

    def _run_loop(self) -> None:
        """Run the loop until the agent is closed."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work in the loop. Raises `ModelError` if the agent is closed."""
        with self._ending_lock:
            if self._ending is None:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise ModelError(f"{self.name} was ended with its session.")

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the loop, and return its result. Raises `ModelError`."""
        try:
            return wait_for_result(self._submit(work))
        except CancelledError:
            raise ModelError(f"{self.name} was ended with its session.") from None

    async def _start(self) -> LiveAgent:
        """Return the agent with a session that has this conversation, or none of it.

        Raises `ModelError`.
        """
        async with self._starting:
            old_live = self._live
            if old_live is not None:
                if old_live.is_usable and not self._remembers_too_much(old_live):
                    return old_live
                self._live = None  # from here on, a stop ends this start
                await old_live.close()
            door = await asyncio.to_thread(self._open_door)
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    self._live = await self._start_process(door)
            except TimeoutError:
                raise ModelError(
                    f"{self.name} did not start within {START_TIMEOUT_S:.0f} seconds, and was ended."
                ) from None
            return self._live

    async def _start_process(self, door: Door) -> LiveAgent:
        """Start the agent in its earlier session, or in a new one if it cannot go on in that.

        Raises `ModelError`.
        """
        try:
            return await self._start_in(self._host.earlier_session(self.name), door)
        except EarlierSessionFailed:
            return await self._start_in(EarlierSession(), door)

    async def _start_in(self, earlier: EarlierSession, door: Door) -> LiveAgent:
        """Start the agent. Arguments and errors are those of `LiveAgent.start`."""
        live = LiveAgent(self._host, self.name, door, self._max_answer_chars)
        await live.start(self._program, self._options, earlier)
        return live

    def _open_door(self) -> Door:
        """Return the agent's door to the session, which is opened once.

        Runs on a thread, which goes on if whoever waits for it is stopped. Raises `ModelError`.
        """
        with self._door_lock:
            if self._door is None:
                self._door = self._host.open_door()
        if self._ending is not None:
            self._door.close()
        return self._door

    def _remembers_too_much(self, live: LiveAgent) -> bool:
        """Return whether the user has taken out of the conversation what the agent cannot forget."""
        return live.has_history and live.session != self._host.earlier_session(self.name).id

    async def _answer(self, prompt: str, turn_number: int) -> str:
        """Answer a question, and log what happens. Raises `ModelError`."""
        turn = AgentTurn(self._host, self.name, turn_number)
        self._answering = asyncio.create_task(self._converse(turn, prompt))
        try:
            turn.end(await self._answering)
        except asyncio.CancelledError:
            turn.end("stopped")
        except ModelError as error:
            emit(self._host.log, Notice(str(error), level="error"))
            turn.end("failed")
            raise
        except BaseException:
            turn.end("failed")
            raise
        finally:
            self._answering = None
        return turn.answer

    async def _converse(self, turn: AgentTurn, prompt: str) -> str:
        """Ask the agent; return how its answer has ended, as in `records.Agent`.

        Raises `ModelError`.
        """
        host = self._host
        if host.cancelled.is_set():  # before this task began, so that nothing has ended it
            return "stopped"
        self._check_budget()
        gathered = await self._gather(turn.number, prompt)
        live = gathered.live
        question = gathered.question
        words = write_question(
            question, gathered.earlier_messages, host.hidden, is_first=not live.has_history
        )
        text = "\n\n".join([*live.permissions.reasons, words])
        pictures = self._pictures(question) if live.sees_pictures else []
        # From here on, a stop reaches the agent itself.
        if host.cancelled.is_set():
            return "stopped"
        live.permissions.reasons.clear()
        self._sent = (gathered.sent + text)[-MAX_SENT_CHARS:]
        session = make_encodable(live.session)
        emit(host.log, AgentSession(session, turn=turn.number, agent=self.name))
        return await live.answer(turn, host.secrets.mask(text), pictures)

    async def _gather(self, turn_number: int, prompt: str) -> _GatheredQuestion:
        """Start the agent, and gather what it gets with a question. Raises `ModelError`."""
        host = self._host
        question: StoredMessage | None = None
        while True:
            live = await self._start()
            last_turn = host.earlier_session(self.name).turn if live.has_history else 0
            earlier_messages = await asyncio.to_thread(host.messages_after, last_turn, turn_number)
            sent = self._sent if live.has_history else ""
            # Once, because the host hands over what is attached once.
            if question is None:
                question = await asyncio.to_thread(host.add_context, turn_number, prompt, sent)
            # The user may have taken something out of the conversation meanwhile.
            if not self._remembers_too_much(live):
                return _GatheredQuestion(live, question, earlier_messages, sent)

    def _pictures(self, question: StoredMessage) -> list[Any]:
        """Return the pictures that a question mentions."""
        pictures = self._host.pictures.items()
        return [picture for name, picture in pictures if f'picture="{name}"' in question.context]

    def _check_budget(self) -> None:
        """Raise `ModelError` if nothing may be spent any more."""
        spending = self._host.spending
        usd_left = spending.usd_left
        if usd_left is not None and usd_left <= 0:
            raise ModelError(
                f"{self.name} was not asked: the session's limit of ${spending.max_usd:,.2f} (max_usd) is reached."
            )
        try:
            with spending.within_limit(self.name, lambda: 0.0):
                pass
        except OverBudget as error:
            raise ModelError(str(error)) from None
