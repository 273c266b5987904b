"""A model of searches that answers from a file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.replay_file import Replay, read_replay, split_tokens
from mahtab_tui.search.conversation import (
    CONCURRENCY,
    Message,
    NodeConversation,
    OnWords,
    Reply,
    WordStream,
    on_thread,
)


class ReplayModel:
    """A `conversation.Model`. Each conversation reads the file from its beginning."""

    remembers = False
    priced = True
    takes_max_tokens = False
    usd_per_token = (0.0, 0.0)

    def __init__(self, name: str, path: Path, secrets: Secrets) -> None:
        """name: for people. secrets: masked in its messages. Raises `ModelError`."""
        self.name = name
        self.concurrency = CONCURRENCY
        self._path = path
        self._lines = read_replay(path)
        self._secrets = secrets

    def conversation(self, *messages: Message) -> NodeConversation:
        conversation = NodeConversation(self, messages)
        conversation.instance = Replay(self._lines, str(self._path))
        return conversation

    def worst_cost(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> float | None:
        return Replay(self._lines, str(self._path)).worst_cost()

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        replay: Replay = conversation.instance
        last = self._secrets.redact_for_model(messages[-1].content)
        line = await on_thread(partial(replay.next, last))  # its pattern may take its time
        words = WordStream(on_words)
        if line.tokens_per_second is None:
            words.add(line.text)
        else:
            for token in split_tokens(line.text):
                await asyncio.sleep(1 / line.tokens_per_second)
                words.add(token)
        words.flush()
        used = Usage(
            model="replay",
            input_tokens=line.input_tokens,
            output_tokens=line.output_tokens,
            cost=line.cost,
        )
        return Reply(words.text, False, used)

    def close(self) -> None:
        """Do nothing: it has no processes."""
