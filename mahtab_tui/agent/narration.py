"""Turns what the graph streams into records and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mahtab_tui.agent.host import AgentHost, ApprovalRequest
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.records import Agent, AssistantChat, Record, emit
from mahtab_tui.bus.stream import StreamingHandler

_SPEAKING = ("generate", "close")
"""Nodes whose answers the user sees."""


class Callbacks(NamedTuple):
    """Callbacks for a program that asks, called on the turn's thread."""

    on_token: Callable[[str], object] = lambda token: None
    on_code_block: Callable[[str, int], object] = lambda code, i: None
    """Gets the code of a block before it runs, and its number in the turn, from 0."""
    on_execution: Callable[[str, bool, int], object] = lambda output, is_error, i: None
    """Gets the output of a block that ran, whether it failed, and its number in the turn."""


class Narration:
    """Reports one turn, and updates its `state`, from the items of `graph.stream`."""

    def __init__(self, state: AgentState, session: AgentHost, callbacks: Callbacks) -> None:
        self._state = state
        self._session = session
        self._callbacks = callbacks
        self._stream: StreamingHandler | None = None
        self._request: ApprovalRequest | None = None

    def tell(self, mode: str, data: Any) -> None:
        """Process one item of the stream modes ``custom`` and ``updates``."""
        if mode == "custom":
            if data is None:
                self._restart()
            elif isinstance(data, str):
                self._token(data)
            else:
                self._record(data)
        else:
            for node, update in data.items():
                if node == "__interrupt__":
                    self._request = ApprovalRequest(**update[0].value)
                else:
                    self._update(node, update)

    def take_request(self) -> ApprovalRequest | None:
        """Return the block that waits for the user, once."""
        request, self._request = self._request, None
        return request

    def end(self, state: str) -> None:
        """Report the end of the turn."""
        self._end_stream()
        emit(self._session.log, Agent(state=state, turn=self._state["turn"], step=self._state["step"], party=self._session.party))

    def _token(self, token: str) -> None:
        if self._stream is not None:
            self._stream.process_token(token)
        self._callbacks.on_token(token)

    def _restart(self) -> None:
        """Discard the answer that is being streamed; it starts again."""
        if self._stream is not None:
            self._stream = self._stream.anew()

    def _record(self, record: Record) -> None:
        emit(self._session.log, record)
        if isinstance(record, Agent) and record.state == "thinking":
            self._stream = StreamingHandler(self._session.log, record.turn, record.step, record.party)

    def _update(self, node: str, update: Mapping[str, Any]) -> None:
        ran = len(self._state["execution_results"])
        self._state.update(update)  # type: ignore[typeddict-item]
        if node in _SPEAKING:
            self._answered()
        elif node == "extract_code":
            for place, code in enumerate(self._state["code_blocks"], ran):
                self._callbacks.on_code_block(code, place)
        elif node == "execute":
            for place, result in enumerate(self._state["execution_results"][ran:], ran):
                if result["cell"] is not None:
                    self._callbacks.on_execution(result["output"], result["is_error"], place)

    def _answered(self) -> None:
        self._end_stream()
        if text := self._state["current_response"]:
            stopped = self._state["stopped"] or bool(self._state["failure"])
            answer = AssistantChat(text, turn=self._state["turn"], step=self._state["step"], party=self._session.party, stopped=stopped)
            emit(self._session.log, answer)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.flush()
            self._stream = None
