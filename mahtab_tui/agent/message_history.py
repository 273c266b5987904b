"""A conversation that is reduced to what a model can read, by summaries of its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from mahtab_tui.agent.host import AgentHost, ConversationSummary, StoredMessage
from mahtab_tui.agent.message_fitting import estimate_size, fit
from mahtab_tui.agent.model_calls import call_model
from mahtab_tui.agent.prompt_messages import PromptMessages
from mahtab_tui.bus.records import Agent, Notice, Summary, emit
from mahtab_tui.llm import prompts
from mahtab_tui.llm.context_window import input_limit
from mahtab_tui.llm.prompt_sections import earlier_conversation


class _Summary(NamedTuple):
    """A summary of the beginning of a conversation."""

    end: int
    """The number of messages that it replaces."""
    text: str
    messages_hash: int
    """A hash of these messages, by which it is noticed that the user has hidden some of them since."""


class MessageHistory(PromptMessages):
    """A conversation reduced to what a model can read.

    A summary is reused as long as possible, so that the start of the prompt stays the same.
    """

    def __init__(
        self,
        host: AgentHost,
        history: Iterable[StoredMessage],
        max_history: int,
        summary: ConversationSummary | None = None,
    ) -> None:
        """
        Args:
            host: The session.
            history: The messages of a resumed session.
            max_history: The number of questions that are sent in full.
            summary: The summary of a resumed session.
        """
        super().__init__(history)
        self._host = host
        self.max_history = max_history
        self._summary: _Summary | None = None
        self._short_end = 0
        """Outputs in messages before this index are shortened."""
        if summary is not None:
            end = self.first_question_after(summary.turn)
            self._summary = _Summary(end, summary.text, self._hash(end))

    @property
    def messages(self) -> list[AnyMessage]:
        """What the model gets: the summary, if there is one, and the messages after it."""
        summary = self._valid_summary()
        if summary is None:
            return self._sent_from(0)
        beginning = HumanMessage(earlier_conversation(summary.text))
        messages = self._sent_from(summary.end)
        if messages and messages[0].type == "human":
            beginning = HumanMessage(f"{beginning.text}\n\n{messages.pop(0).text}")
        return [beginning, *messages]

    def prepare(
        self, summariser: BaseChatModel, system: SystemMessage, turn: int, limit: int
    ) -> list[AnyMessage]:
        """Return the messages for a new question, which is the last one.

        Args:
            summariser: The model that summarises what is too long.
            system: The system prompt.
            turn: The number of the question.
            limit: Tokens of the messages with the system prompt.
        """
        max_tokens = limit - estimate_size([system])
        questions = self.questions(self._host.hidden)
        if estimate_size(self.messages) > max_tokens:
            self._short_end = max(self._short_end, questions[-1])
        if self._fits(max_tokens):
            return self.messages

        # Half of what is possible stays in full, so that the next questions need no new summary.
        summary_end = self.summary_end
        unsummarised = [index for index in questions if index >= summary_end]
        end = self._find_summary_end(unsummarised, max_tokens // 2)
        if end is not None and end > summary_end:
            failure = self._summarise(summariser, end, turn)
            if failure:
                self._warn(f"Summarising failed ({failure}). The next question tries again.")
        return self.messages

    def _find_summary_end(self, questions: Sequence[int], max_tokens: int) -> int | None:
        """Return the index of the first question that stays in full; None if there is no question.

        Args:
            questions: The indexes of the questions that are not summarised yet.
            max_tokens: Tokens that this question and all later messages may have. The last question
                stays in any case.
        """
        max_question_count = max(1, self.max_history // 2)
        starts = list(questions[-max_question_count:])
        while len(starts) > 1 and estimate_size(self._sent_from(starts[0])) > max_tokens:
            del starts[0]
        return starts[0] if starts else None

    def _sent_from(self, start: int) -> list[AnyMessage]:
        """Return what the model gets of the messages from an index on."""
        return self.as_messages(self._host.hidden, start, short_end=self._short_end)

    def compact(self, summariser: BaseChatModel, keep: str, turn: int) -> str | None:
        """Summarise all questions but the last.

        Args:
            summariser: The model that summarises.
            keep: What the summary must contain, in the user's words.
            turn: The number of the last question.

        Returns:
            An empty string; the reason if nothing was summarised; None if it was stopped.
        """
        questions = self.questions(self._host.hidden)
        if not questions or questions[-1] <= self.summary_end:
            return "nothing before the last question is left to summarise"
        return self._summarise(summariser, questions[-1], turn, keep)

    @property
    def summary_end(self) -> int:
        """The number of messages that the summary replaces."""
        summary = self._valid_summary()
        return 0 if summary is None else summary.end

    def _fits(self, max_tokens: int) -> bool:
        """Return whether the questions after the summary are neither too many nor too long."""
        summary_end = self.summary_end
        questions = self.questions(self._host.hidden)
        full_questions = [index for index in questions if index >= summary_end]
        if len(full_questions) > self.max_history:
            return False
        return estimate_size(self.messages) <= max_tokens

    def _valid_summary(self) -> _Summary | None:
        """Return the summary, unless the user has since changed what it was made of."""
        summary = self._summary
        if summary is None or summary.messages_hash != self._hash(summary.end):
            return None
        return summary

    def _hash(self, end: int) -> int:
        messages = self.as_messages(self._host.hidden, 0, end)
        return hash(tuple(str(message.text) for message in messages))

    def _summarise(self, llm: BaseChatModel, end: int, turn: int, keep: str = "") -> str | None:
        """Summarise the messages before `end`; the result is that of `compact`."""
        host = self._host
        emit(host.log, Agent(state="summarising", turn=turn, step=0, party=host.party))
        summary = self._valid_summary()
        start = 0 if summary is None else summary.end
        earlier_text = "" if summary is None else summary.text
        messages = self.as_messages(host.hidden, start, end, short_end=end)
        fitting_messages = fit(messages, input_limit(llm) // 2)
        texts = [(message.type, str(message.text)) for message in fitting_messages]
        request = prompts.summary_request(earlier_text, texts, keep)
        answer = call_model(host, llm, [HumanMessage(request)], turn, "summary", self._warn)
        if answer.is_stopped:
            return None
        text = answer.text.strip()
        if answer.failure or not text:
            return answer.failure.rstrip(".") or "the model gave an empty answer"

        tokens_before = estimate_size(self.messages)
        self._summary = _Summary(end, text, self._hash(end))
        tokens_after = estimate_size(self.messages)
        self._report_summary(text, end, tokens_before, tokens_after)
        return ""

    def _report_summary(self, text: str, end: int, tokens_before: int, tokens_after: int) -> None:
        """Tell the user of a new summary, and store it.

        Args:
            text: The summary.
            end: The number of messages that it replaces.
            tokens_before: What the model got before.
            tokens_after: What the model gets from now on.
        """
        questions = [message for message in self._messages[:end] if message.role == "user"]
        last_turn = questions[-1].turn if questions else None
        summarised_part = "the beginning of the conversation"
        if last_turn is not None:
            summarised_part = f"the conversation up to question {last_turn}"
        notice = (
            f"From now on the model gets only a summary of {summarised_part}"
            f" (about {tokens_before:,} → {tokens_after:,} tokens)."
        )
        emit(self._host.log, Notice(f"{notice} Nothing changes on your screen.\n{text}"))
        emit(self._host.log, Summary(text, turn=last_turn))

    def _warn(self, sentence: str) -> None:
        emit(self._host.log, Notice(sentence, level="warning"))
