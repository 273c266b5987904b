"""Models of services, asked without LangChain, and models that answer from a file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.answer_metadata import is_cut
from mahtab_tui.llm.answer_readers import AnswerListener, AnswerReader, OnText, TextPortions
from mahtab_tui.llm.async_calls import run_on_thread
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_answers import ChatChunk
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.prices import LOCAL, Tariff
from mahtab_tui.llm.replay_file import Replay, read_replay, split_tokens
from mahtab_tui.llm.sampling import Sampling, check_sampling, supported_options
from mahtab_tui.llm.services import Service
from mahtab_tui.llm.usage import answer_usage
from mahtab_tui.search.conversation import Model, ModelReply, NodeConversation, PromptMessage


class ServiceModel(Model):
    """A model of a service. Lives in one loop."""

    takes_max_tokens = True

    def __init__(self, service: Service, name: str, secrets: Secrets, sampling: Sampling) -> None:
        """Make a model that asks its service at the first call.

        Args:
            service: Where the model is, and how it is asked.
            name: For people.
            secrets: Masked in its messages.
            sampling: `temperature`, `top_p` and `seed`, as far as they are set.

        Raises:
            ModelError: The model does not take a sampling option.
        """
        check_sampling(name, sampling, supported_options(service.dialect))
        self._tariff = Tariff(service.model, service.priced_as, service.max_tokens)
        super().__init__(name, secrets, self._tariff)
        self._options = {"max_tokens": service.max_tokens, **sampling}
        if service.num_ctx is not None:
            self._options["num_ctx"] = service.num_ctx
        self._client = ChatClient(
            service.dialect,
            service.address,
            service.model,
            key=service.secret,
            key_name=service.key_name,
            timeout=service.timeout,
            max_answer_chars=service.max_answer_chars,
        )

    async def answer(
        self,
        conversation: NodeConversation,
        messages: Sequence[PromptMessage],
        on_text: OnText,
    ) -> ModelReply:
        reader = _ChunkReader(self._tariff, on_text)
        options = dict(self._options)
        if conversation.max_tokens is not None:
            options["max_tokens"] = conversation.max_tokens
        exchange = self._client.start(self.masked(messages), reader.take, **options)
        try:
            return await reader.reply
        except asyncio.CancelledError:
            exchange.stop()
            raise
        except ModelError:
            conversation.used = reader.used
            raise

    def close(self) -> None:
        self._client.close()


class _ChunkReader:
    """Joins the pieces of an answer on the client's thread, and reports to the loop."""

    def __init__(self, tariff: Tariff, on_text: OnText) -> None:
        """Begin an answer, in the loop that waits for it.

        Args:
            tariff: Determines the price of the answer.
            on_text: Called in the loop with each piece.
        """
        self._tariff = tariff
        self._loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[ModelReply] = self._loop.create_future()
        """Done when the answer is here, or has failed."""
        self._portions = TextPortions(lambda text: self._report(lambda: on_text(text)))
        self._reader = AnswerReader(AnswerListener(self._portions.add))
        self.used: Usage | None = None
        """What the answer has used, as far as the service has said it."""

    def take(self, chunk: ChatChunk | ModelError | None) -> None:
        """Take a chunk, None at the end, or an error in its place."""
        if isinstance(chunk, ChatChunk):
            self._reader.add_text(chunk.text)
            if chunk.end is not None:
                self._reader.metadata = {"finish_reason": chunk.end.reason}
                self.used = answer_usage(self._tariff, chunk.end)
            return

        error = chunk or self._reader.refusal
        if error is not None:
            self._report(partial(self._fail, error))
            return
        self._portions.flush()
        is_reply_cut = is_cut(self._reader.metadata)
        reply = ModelReply(self._reader.whole_text, is_reply_cut, self.used)
        self._report(partial(self._succeed, reply))

    def _fail(self, error: ModelError) -> None:
        """End the wait by an error, unless it was cancelled."""
        if not self.reply.done():
            self.reply.set_exception(error)

    def _succeed(self, reply: ModelReply) -> None:
        """End the wait by a reply, unless it was cancelled."""
        if not self.reply.done():
            self.reply.set_result(reply)

    def _report(self, call: Callable[[], object]) -> None:
        """Call a function in the loop."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(call)


class ReplayModel(Model):
    """A model that answers from a file, which each conversation reads from its beginning."""

    def __init__(self, name: str, path: Path, secrets: Secrets) -> None:
        """Read the file. Raises `ModelError` if it is not a replay."""
        super().__init__(name, secrets, Tariff("replay", LOCAL, None))
        self._path = path
        self._lines = read_replay(path)

    def conversation(self, *messages: PromptMessage) -> NodeConversation:
        conversation = super().conversation(*messages)
        conversation.instance = Replay(self._lines, str(self._path))
        return conversation

    def worst_cost(
        self, messages: Sequence[PromptMessage], max_tokens: int | None = None
    ) -> float | None:
        return Replay(self._lines, str(self._path)).worst_cost()

    async def answer(
        self,
        conversation: NodeConversation,
        messages: Sequence[PromptMessage],
        on_text: OnText,
    ) -> ModelReply:
        replay: Replay = conversation.instance
        last_message = self._secrets.redact_for_model(messages[-1].content)
        # The pattern of a line may take its time.
        line = await run_on_thread(partial(replay.next, last_message))

        portions = TextPortions(on_text)
        reader = AnswerReader(AnswerListener(portions.add))
        if line.tokens_per_second is None:
            reader.add_text(line.text)
        else:
            for token in split_tokens(line.text):
                await asyncio.sleep(1 / line.tokens_per_second)
                reader.add_text(token)
        portions.flush()

        usage = Usage(
            model="replay",
            input_tokens=line.input_tokens,
            output_tokens=line.output_tokens,
            cost=line.cost,
        )
        return ModelReply(reader.whole_text, False, usage)
