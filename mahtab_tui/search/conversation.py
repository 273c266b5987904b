"""The messages of one node, and the base of the models that it asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.answer_readers import OnText
from mahtab_tui.llm.prices import (
    EXPENSIVE_USD_PER_TOKEN,
    Tariff,
    is_priced,
    usd_per_token,
    worst_cost,
)
from mahtab_tui.search.gates import Gate
from mahtab_tui.system import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

CONCURRENCY = 16
"""How many calls of a model run at a time, by default."""


class PromptMessage(NamedTuple):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str
    """The text, in which secrets are not masked yet."""


class ModelReply(NamedTuple):
    """A model's answer."""

    text: str
    cut: bool
    """Whether it reached the model's token limit."""
    usage: Usage | None
    """None if the model did not report it."""


class Model:
    """A model that the nodes of searches ask, and what its calls cost. One event loop uses it."""

    remembers = False
    """Whether it keeps conversations itself, if its answers come back word for word."""
    takes_max_tokens = False
    """Whether a call can limit its answer's tokens, so that its worst cost is known."""
    concurrency = CONCURRENCY
    gate: Gate
    """Limits its calls that run at a time."""

    def __init__(
        self, name: str, secrets: Secrets, price_source: BaseChatModel | Tariff | None
    ) -> None:
        """Begin to load the table of prices, if the model needs it.

        Args:
            name: The name that people read.
            secrets: Masked in its messages.
            price_source: What determines the price of its calls; None if it is unknown.
        """
        self.name = name
        self._secrets = secrets
        self._price_source = price_source
        self._price_loader = threading.Thread(target=_load_prices, name="prices", daemon=True)
        if isinstance(price_source, Tariff) and price_source.needs_table:
            self._price_loader.start()

    @property
    def priced(self) -> bool:
        """Whether the price of a call is known, if only after it."""
        return self._price_source is not None and is_priced(self._price_source)

    @property
    def usd_per_token(self) -> tuple[float, float]:
        """US dollars for a token read and a token written.

        They are zero if they are not known before a call.
        """
        if self._price_source is None:
            return 0.0, 0.0
        # Nobody waits for the table here. Until it is loaded, an estimate is rather too high.
        if self._price_loader.is_alive():
            return EXPENSIVE_USD_PER_TOKEN
        return usd_per_token(self._price_source)

    def worst_cost(
        self, messages: Sequence[PromptMessage], max_tokens: int | None = None
    ) -> float | None:
        """Return the most US dollars that an answer may cost; None if unknown.

        Args:
            messages: What the model reads.
            max_tokens: The most that it may write; None for the model's own limit.
        """
        if self._price_source is None:
            return None
        texts = (message.content for message in messages)
        return worst_cost(self._price_source, texts, max_tokens=max_tokens)

    def conversation(self, *messages: PromptMessage) -> NodeConversation:
        """Return a new conversation that begins with these messages."""
        return NodeConversation(self, messages)

    def masked(self, messages: Sequence[PromptMessage]) -> list[dict[str, str]]:
        """Return messages as a service takes them, with secrets masked."""
        return [
            {"role": message.role, "content": self._secrets.redact_for_model(message.content)}
            for message in messages
        ]

    async def answer(
        self,
        conversation: NodeConversation,
        messages: Sequence[PromptMessage],
        on_text: OnText,
    ) -> ModelReply:
        """Return the answer. Cancelling stops the model at once.

        Args:
            conversation: Its limit of tokens holds; a model that remembers keeps it.
            messages: What the model reads, without secrets masked.
            on_text: Called with each piece of the answer; with None if the answer starts again.

        Raises:
            ModelError: The model failed.
            Exception: What the provider's code raises.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End its processes, if it has any. May block."""


def _load_prices() -> None:
    with IMPORTS.turn():
        import genai_prices  # noqa: F401


class NodeConversation:
    """The messages of one node."""

    def __init__(self, model: Model, messages: Sequence[PromptMessage]) -> None:
        self.model = model
        self.messages = list(messages)
        self.instance: Any = None
        """The model's instance that knows the conversation; None if there is none."""
        self.ended = False
        """Whether no more calls will be made."""
        self.max_tokens: int | None = None
        """The most that the next answer may have; None for the model's own limit."""
        self._answer_pieces: list[str] = []
        self.used: Usage | None = None
        """What the last call used if it failed, as the model reported it."""

    @property
    def partial(self) -> str:
        """The last answer as far as it came."""
        return "".join(self._answer_pieces)

    @property
    def chars(self) -> int:
        """The number of characters of all messages."""
        return sum(len(message.content) for message in self.messages)

    def add(self, message: PromptMessage) -> None:
        """Add a message at the end."""
        self.messages.append(message)

    def replace(self, old: PromptMessage, new: PromptMessage) -> None:
        """Put a message in the place of another one.

        Raises:
            ValueError: The old one is not in the conversation.
        """
        for index, message in enumerate(self.messages):
            if message is old:
                self.messages[index] = new
                return
        raise ValueError("The message is not in the conversation.")

    def worst_cost(self) -> float | None:
        """Return the most US dollars that the next answer may cost; None if unknown."""
        return self.model.worst_cost(self.messages, self.max_tokens)

    async def ask(self, on_text: OnText) -> ModelReply:
        """Return the answer, which is not added to the messages; see `Model.answer`."""
        self._answer_pieces = []
        self.used = None

        def collect(text: str | None) -> None:
            if text is None:
                self._answer_pieces.clear()
            else:
                self._answer_pieces.append(text)
            on_text(text)

        return await self.model.answer(self, self.messages, collect)
