"""How much of a conversation the model is told: the newest questions as they were, what came before them as a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from mahtab_tui.agent.calling import call
from mahtab_tui.agent.conversation import Conversation
from mahtab_tui.agent.fitting import fit, size
from mahtab_tui.agent.host import AgentHost, Summary
from mahtab_tui.bus import records
from mahtab_tui.bus.records import Agent, Notice, emit
from mahtab_tui.llm import prompts
from mahtab_tui.llm.usage import room_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class _Digest(NamedTuple):
    """What stands for the beginning of the conversation."""

    end: int
    """The message before which it is the whole."""
    text: str
    of: int
    """The hash of what it was made of; where the person has taken something out since, it is another."""


class History:
    """Of one conversation. The summary is made when there are too many questions, or they are too long for the model, and told until it
    has to be made again: of what was said to the model, as little as possible changes from question to question."""

    def __init__(self, host: AgentHost, conversation: Conversation, max_history: int, summary: Summary | None = None) -> None:
        """max_history: how many questions are told as they were. summary: of an earlier part of the session."""
        self._host = host
        self._conversation = conversation
        self.max_history = max_history
        self._digest: _Digest | None = None
        self._left_out = 0
        """The message before which nothing is told but the summary: what follows that could not be summarised yet."""
        self._short = 0
        """The message before which outputs are told shortened."""
        if summary is not None:
            self._digest = self._made(conversation.after(summary.turn), summary.text)

    @property
    def messages(self) -> list[AnyMessage]:
        """The conversation as the model is told it now."""
        told = self._conversation.told(self._host.left_out, self._start, short=self._short)
        if not self._start:
            return told
        digest = self._valid()
        before = prompts.earlier_conversation(digest.text if digest else "", whole=self._summarised == self._start)
        if not told or told[0].type != "human":
            return [HumanMessage(before), *told]
        return [HumanMessage(f"{before}\n\n{told[0].text}"), *told[1:]]

    def told(self, llm: BaseChatModel, summariser: BaseChatModel, system: str, turn: int, most: int | None) -> list[AnyMessage]:
        """What the model is told with a question, which is the last message; what is too much for it is made less first.

        summariser: makes the summary. most: tokens that the model was found to read at once, where that is less than it says.
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
        while len(kept) > 1 and size(self._conversation.told(self._host.left_out, kept[0], short=self._short)) > room // 2:
            del kept[0]
        if kept and kept[0] > start:
            failure = failure or self._summarise(summariser, kept[0], turn)
            if failure:
                self._leave_out(kept[0], failure)
        return self.messages

    @property
    def _summarised(self) -> int:
        """The message before which the summary stands for all."""
        return digest.end if (digest := self._valid()) else 0

    @property
    def _start(self) -> int:
        """The first message that is told."""
        return max(self._summarised, self._left_out)

    def _fits(self, room: int) -> bool:
        start = self._start
        told = sum(place >= start for place in self._conversation.questions(self._host.left_out))
        return told <= self.max_history and size(self.messages) <= room

    def _valid(self) -> _Digest | None:
        digest = self._digest
        return digest if digest is not None and digest.of == self._hash(digest.end) else None

    def _hash(self, end: int) -> int:
        return hash(tuple(str(message.text) for message in self._conversation.told(self._host.left_out, 0, end)))

    def _made(self, end: int, text: str) -> _Digest:
        return _Digest(end, text, self._hash(end))

    def _summarise(self, llm: BaseChatModel, end: int, turn: int) -> str | None:
        """Let a model say what the conversation before a message was, and tell the person; else why it cannot, or None where it was stopped."""
        host, digest, room = self._host, self._valid(), room_of(llm)
        emit(host.log, Agent(state="thinking", turn=turn, step=0, party=host.party))
        said = self._conversation.told(host.left_out, digest.end if digest else 0, end, short=end)
        request = prompts.summary_request(digest.text if digest else "", [(message.type, str(message.text)) for message in fit(said, room // 2)])

        def pausing(sentence: str) -> None:
            emit(host.log, Notice(sentence, level="warning"))

        answer = call(host, llm, [HumanMessage(request)], turn, "summary", pausing)
        if answer.stopped:
            return None
        text = answer.text.strip()
        if answer.failure or not text:
            return answer.failure.rstrip(".") or "the model said nothing"
        self._digest, self._left_out = self._made(end, text), 0
        emit(host.log, Notice(f"The model now knows {self._until(end)} as a summary only; here it stays as it was.\n{text}"))
        emit(host.log, records.Summary(text, turn=self._conversation.turn_before(end)))
        return ""

    def _leave_out(self, end: int, why: str) -> None:
        """Tell the model nothing of what was said before a message, until it can be summarised."""
        self._left_out = end
        notice = f"The model does not know {self._until(end)}, which could not be summarised ({why}); that is tried again with the next question."
        emit(self._host.log, Notice(notice, level="warning"))

    def _until(self, end: int) -> str:
        last = self._conversation.turn_before(end)
        return "the beginning of the conversation" if last is None else f"what was said up to question {last}"
