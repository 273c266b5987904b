"""The model of the agent, asked with no more than its service accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage
from langgraph.types import StreamWriter

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.message_fitting import estimate_size, fit
from mahtab_tui.agent.message_pictures import attached_picture_ids, pictures_to_send, with_pictures
from mahtab_tui.agent.model_calls import ModelAnswer, call_model
from mahtab_tui.agent.state import AgentState
from mahtab_tui.agent.tool_calls import binding_arguments, calls_as_text
from mahtab_tui.bus.records import AssistantReading, AssistantThoughtStream, Notice
from mahtab_tui.llm.answer_readers import AnswerListener
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.context_window import input_limit
from mahtab_tui.llm.pictures import EncodedPicture, accepts_pictures
from mahtab_tui.llm.prices import is_on_this_machine
from mahtab_tui.tools.toolset import Toolset

_PICTURE_ERRORS = ("image", "vision", "multimodal")
"""Words of the error of a service that rejects pictures."""
_TOOL_ERRORS = ("tool", "function call")
"""Words of the error of a service that rejects tools."""

TOO_LONG = (
    "The conversation is too long for the model, so this time outputs are shortened, or its"
    " beginning is left out."
)
PICTURES_REJECTED = "The service rejected the pictures, so the model is asked without them."
TOOLS_REJECTED = "The model does not support tools, so it is asked without them."
PICTURES_OMITTED = "Not all pictures fit; the model only knows that the others exist."
PICTURES_UNSEEN = "The model cannot see pictures; it only knows that they exist."


@dataclass(frozen=True)
class ModelRequest:
    """What the model gets with one call."""

    turn: int
    """The number of the question."""
    step: int
    """The number of the answer within the turn, from 0."""
    system: Sequence[SystemMessage]
    messages: Sequence[AnyMessage]
    """The conversation, cut to what the model can read."""
    pictures: Mapping[str, EncodedPicture]
    """Pictures by the ids with which the messages name them."""
    options: Mapping[str, Any]
    """Such as the tools that it may call."""

    @property
    def tokens(self) -> int:
        """An estimate for the whole request."""
        text_tokens = estimate_size(self.system) + estimate_size(self.messages)
        return text_tokens + _count_tokens(self.pictures)


class AgentModel:
    """A model, and what its service has rejected so far."""

    def __init__(self, llm: BaseChatModel, session: AgentHost, toolset: Toolset | None) -> None:
        self.llm = llm
        self._session = session
        self._toolset = toolset
        self._tokens_after_rejection: int | None = None
        """The tokens that the model can read, if it has rejected more."""
        self._model_without_tools: BaseChatModel | None = None
        """The model whose service has rejected tools."""
        self._model_without_pictures: BaseChatModel | None = None
        """The model whose service has rejected pictures."""

    def replace_llm(self, llm: BaseChatModel) -> None:
        """Ask another model from now on."""
        self.llm = llm
        self._tokens_after_rejection = None

    @property
    def token_limit(self) -> int:
        """The tokens that the model can read."""
        limit = input_limit(self.llm)
        if self._tokens_after_rejection is None:
            return limit
        return min(limit, self._tokens_after_rejection)

    @property
    def sees_pictures(self) -> bool:
        """Whether the model is known to accept pictures."""
        return accepts_pictures(self.llm) is True and self._model_without_pictures is not self.llm

    @property
    def offered_tools(self) -> set[str]:
        """The names of the tools that the model may call."""
        if self._toolset is None or not self.tool_options():
            return set()
        return {tool.name for tool in self._toolset.offered}

    def tool_options(self, *, forbidden: bool = False) -> dict[str, Any]:
        """Return the options by which the model may call tools; empty if it gets none.

        Models on this machine get none, because small ones call them instead of writing code, and
        the same functions are in the namespace.

        Args:
            forbidden: Whether the model must call none this time. They are listed nevertheless,
                because they are at the start of the prompt, which a service caches.
        """
        if self._toolset is None or self._model_without_tools is self.llm:
            return {}
        if is_on_this_machine(self.llm):
            return {}
        return binding_arguments(self.llm, self._toolset.offered, forbidden=forbidden)

    def ask(
        self,
        state: AgentState,
        messages: Sequence[AnyMessage],
        options: Mapping[str, Any],
        writer: StreamWriter,
    ) -> ModelAnswer:
        """Ask for the next answer of a turn.

        If the service rejects the pictures, the length or the tools, it is asked once more without
        them.

        Args:
            state: The turn.
            messages: The conversation to send.
            options: What `tool_options` returns, and other options of the model.
            writer: Gets the words of the answer and records.
        """
        if "tools" not in options:
            messages = calls_as_text(messages)
        pictures = self._available_pictures()
        request = self._prepare(state, messages, options, pictures, writer)
        if not request.pictures.keys() >= set(attached_picture_ids(messages[-1:])):
            _warn(writer, PICTURES_OMITTED if pictures else PICTURES_UNSEEN)
        answer = self._send(request, writer)

        if request.pictures and _is_about(answer, _PICTURE_ERRORS):
            # A model that is known to see pictures may have rejected only these.
            if accepts_pictures(self.llm) is None:
                self._model_without_pictures = self.llm
            _warn(writer, f"{PICTURES_REJECTED} {answer.failure}")
            pictures = {}
            request = replace(request, pictures={})
            answer = self._send(request, writer)

        if answer.is_too_long and not answer.text:
            self._tokens_after_rejection = request.tokens // 2
            request = self._prepare(state, messages, options, pictures, writer)
            return self._send(request, writer)

        if "tools" in options and _is_about(answer, _TOOL_ERRORS):
            self._model_without_tools = self.llm
            writer(Notice(TOOLS_REJECTED, level="info"))
            request = replace(request, messages=calls_as_text(request.messages), options={})
            return self._send(request, writer)
        return answer

    def _available_pictures(self) -> Mapping[str, EncodedPicture]:
        """Return the pictures of the session that the model may get, by their ids."""
        if accepts_pictures(self.llm) is False or self._model_without_pictures is self.llm:
            return {}
        return self._session.pictures

    def _prepare(
        self,
        state: AgentState,
        messages: Sequence[AnyMessage],
        options: Mapping[str, Any],
        pictures: Mapping[str, EncodedPicture],
        writer: StreamWriter,
    ) -> ModelRequest:
        """Return a request that the model can read. The user is told if messages were cut for it."""
        system = [SystemMessage(state["system_prompt"])] if state["system_prompt"] else []
        picture_tokens = _count_tokens(self._choose_pictures(messages, pictures))
        max_tokens = self.token_limit - estimate_size(system) - picture_tokens
        fitted_messages = fit(messages, max_tokens, state["turn"])
        if fitted_messages != messages:
            _warn(writer, TOO_LONG)
        return ModelRequest(
            turn=state["turn"],
            step=state["step"] + 1,
            system=system,
            messages=fitted_messages,
            # Chosen again, because the message that names a picture may have been left out.
            pictures=self._choose_pictures(fitted_messages, pictures),
            options=options,
        )

    def _choose_pictures(
        self, messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture]
    ) -> Mapping[str, EncodedPicture]:
        """Return the pictures to send, which may use half of the context window."""
        return pictures_to_send(messages, pictures, self.token_limit // 2)

    def _send(self, request: ModelRequest, writer: StreamWriter) -> ModelAnswer:
        """Call the model once, and pass on what it writes and thinks."""
        party = self._session.party
        thought = AssistantThoughtStream(turn=request.turn, step=request.step, party=party)
        reading = AssistantReading(turn=request.turn, step=request.step, party=party)
        listener = AnswerListener(
            writer,
            on_thought=lambda text: writer(thought.changed(text=make_encodable(text))),
            on_reading=lambda share: writer(reading.changed(share=share)),
        )
        return call_model(
            self._session,
            self.llm,
            [*request.system, *with_pictures(request.messages, request.pictures)],
            request.turn,
            "agent",
            on_pause=partial(_warn, writer),
            listener=listener,
            options=request.options,
        )


def _is_about(answer: ModelAnswer, words: Sequence[str]) -> bool:
    """Return whether the service gave only an error, which names a feature by one of these words."""
    failure = answer.failure.lower()
    return not answer.text and any(word in failure for word in words)


def _count_tokens(pictures: Mapping[str, EncodedPicture]) -> int:
    return sum(picture.tokens for picture in pictures.values())


def _warn(writer: StreamWriter, text: str) -> None:
    writer(Notice(text, level="warning"))
