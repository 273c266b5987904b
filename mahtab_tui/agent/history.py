"""Decides how much of a conversation the model is told: the newest questions in full, earlier ones
as a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from mahtab_tui.agent.conversation import Conversation
from mahtab_tui.agent.fitting import fit, size
from mahtab_tui.agent.host import AgentHost, ConversationSummary
from mahtab_tui.agent.model_calls import call_model
from mahtab_tui.bus import records
from mahtab_tui.bus.records import Agent, Notice, emit
from mahtab_tui.llm import prompts
from mahtab_tui.llm.usage import room_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class _Digest(NamedTuple):
    """A summary of the beginning of the conversation."""

    end: int
    """Index of the first message that it does not cover."""
    text: str
    of: int
    """Hash of the messages that it covers, which changes if the user takes something out."""


class MessageHistory:
    """The history of one conversation. A summary is made when there are too many questions or they
    are too long for the model, and used until a new one is needed, so that as little as possible
    changes from one question to the next."""

    def __init__(
        self,
        host: AgentHost,
        conversation: Conversation,
        max_history: int,
        summary: ConversationSummary | None = None,
    ) -> None:
        """max_history: how many questions are told in full. summary: of an earlier part of the
        session."""
        self._host = host
        self._conversation = conversation
        self.max_history = max_history
        self._digest: _Digest | None = None
        self._left_out = 0
        """Messages between the summary's end and this index are not told, because summarising them
        failed."""
        self._short = 0
        """Outputs in messages before this index are shortened."""
        if summary is not None:
            self._digest = self._made(conversation.after(summary.turn), summary.text)

    @property
    def messages(self) -> list[AnyMessage]:
        """The conversation as the model is now told it."""
        told = self._conversation.told(self._host.left_out, self._start, short=self._short)
        if not self._start:
            return told
        digest = self._valid()
        before = prompts.earlier_conversation(
            digest.text if digest else "", whole=self._summarised == self._start
        )
        if not told or told[0].type != "human":
            return [HumanMessage(before), *told]
        return [HumanMessage(f"{before}\n\n{told[0].text}"), *told[1:]]

    def told(
        self,
        llm: BaseChatModel,
        summariser: BaseChatModel,
        system: str,
        turn: int,
        most: int | None,
    ) -> list[AnyMessage]:
        """Return the messages for a new question, which is the last one, after reducing them to
        what the model can read.

        summariser: makes the summary. most: the tokens that the model was found to read, if that is
        less than it claims.
        """
        room = min(room_of(llm), most or room_of(llm)) - size([SystemMessage(system)])
        failure: str | None = ""
        if self._left_out > self._summarised:
            failure = self._summarise(summariser, self._left_out, turn)
        if failure is None or self._fits(room):
            return self.messages
        questions = self._conversation.questions(self._host.left_out)
        if size(self.messages) > room:
            self._short = max(self._short, questions[-1])
        if self._fits(room):
            return self.messages
        start = self._start
        kept = [place for place in questions if place >= start][-max(1, self.max_history // 2) :]
        while (
            len(kept) > 1
            and size(self._conversation.told(self._host.left_out, kept[0], short=self._short))
            > room // 2
        ):
            del kept[0]
        if kept and kept[0] > start:
            failure = failure or self._summarise(summariser, kept[0], turn)
            if failure:
                self._leave_out(kept[0], failure)
        return self.messages

    def compact(self, summariser: BaseChatModel, keep: str, turn: int) -> str | None:
        """Summarise all questions but the last one now. Returns an empty string, why nothing was
        summarised, or None if it was stopped.

        keep: what the summary shall keep, in the user's words. turn: of the last question.
        """
        questions = self._conversation.questions(self._host.left_out)
        if not questions or questions[-1] <= self._summarised:
            return "nothing before the last question is left to summarise"
        return self._summarise(summariser, questions[-1], turn, keep, must_shorten=True)

    @property
    def _summarised(self) -> int:
        """Index of the first message that no summary covers."""
        return digest.end if (digest := self._valid()) else 0

    @property
    def _start(self) -> int:
        """Index of the first message that is told in full."""
        return max(self._summarised, self._left_out)

    def _fits(self, room: int) -> bool:
        start = self._start
        told = sum(place >= start for place in self._conversation.questions(self._host.left_out))
        return told <= self.max_history and size(self.messages) <= room

    def _valid(self) -> _Digest | None:
        digest = self._digest
        return digest if digest is not None and digest.of == self._hash(digest.end) else None

    def _hash(self, end: int) -> int:
        return hash(
            tuple(
                str(message.text)
                for message in self._conversation.told(self._host.left_out, 0, end)
            )
        )

    def _made(self, end: int, text: str) -> _Digest:
        return _Digest(end, text, self._hash(end))

    def _summarise(
        self, llm: BaseChatModel, end: int, turn: int, keep: str = "", *, must_shorten: bool = False
    ) -> str | None:
        """Summarise the messages before `end` and notify the user. Returns an empty string, why it
        failed, or None if it was stopped.

        must_shorten: fail if the conversation does not become shorter.
        """
        host, digest, room = self._host, self._valid(), room_of(llm)
        emit(host.log, Agent(state="summarising", turn=turn, step=0, party=host.party))
        said = self._conversation.told(host.left_out, digest.end if digest else 0, end, short=end)
        request = prompts.summary_request(
            digest.text if digest else "",
            [(message.type, str(message.text)) for message in fit(said, room // 2)],
            keep,
        )

        def pausing(sentence: str) -> None:
            emit(host.log, Notice(sentence, level="warning"))

        answer = call_model(host, llm, [HumanMessage(request)], turn, "summary", pausing)
        if answer.stopped:
            return None
        text = answer.text.strip()
        if answer.failure or not text:
            return answer.failure.rstrip(".") or "the model gave an empty answer"
        before, old = size(self.messages), (self._digest, self._left_out)
        self._digest, self._left_out = self._made(end, text), 0
        after = size(self.messages)
        if must_shorten and after >= before:
            self._digest, self._left_out = old
            return f"the summary would not be shorter ({before:,} → {after:,} tokens)"
        told = f"From now on the model gets only a summary of {self._until(end)} (about {before:,} → {after:,} tokens)."
        emit(host.log, Notice(f"{told} Nothing changes on your screen.\n{text}"))
        emit(host.log, records.Summary(text, turn=self._conversation.turn_before(end)))
        return ""

    def _leave_out(self, end: int, why: str) -> None:
        """Tell the model nothing of the messages before `end` until they can be summarised."""
        self._left_out = end
        notice = f"Summarising failed ({why}), so the model does not get {self._until(end)}. The next question tries again."
        emit(self._host.log, Notice(notice, level="warning"))

    def _until(self, end: int) -> str:
        last = self._conversation.turn_before(end)
        return (
            "the beginning of the conversation"
            if last is None
            else f"the conversation up to question {last}"
        )
