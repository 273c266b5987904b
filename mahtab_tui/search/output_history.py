"""The outputs of code in a conversation, of which the older ones are shortened once it is long."""

from __future__ import annotations

from collections import deque

from mahtab_tui.sandbox.base import TurnResult
from mahtab_tui.search import prompts
from mahtab_tui.search.conversation import NodeConversation, PromptMessage

_LONG_CONVERSATION_CHARS = 60_000
"""In longer conversations, all but the newest outputs are shortened."""
_UNSHORTENED_OUTPUTS = 3
"""Number of the newest outputs that stay whole."""


class OutputHistory:
    """The outputs that are still whole, with their messages; the oldest first."""

    def __init__(self) -> None:
        self._outputs: deque[tuple[PromptMessage, TurnResult]] = deque()

    def add(self, message: PromptMessage, result: TurnResult) -> None:
        """Add the newest output.

        Args:
            message: The message to the model that shows it.
            result: The output itself.
        """
        self._outputs.append((message, result))

    def replace_message(self, old: PromptMessage, new: PromptMessage) -> None:
        """Note that a message, which may show an output, has been replaced."""
        self._outputs = deque(
            (new if message is old else message, result) for message, result in self._outputs
        )

    def shorten(self, conversation: NodeConversation) -> None:
        """Shorten all but the newest outputs of a long conversation."""
        if conversation.chars <= _LONG_CONVERSATION_CHARS:
            return
        while len(self._outputs) > _UNSHORTENED_OUTPUTS:
            message, result = self._outputs.popleft()
            if len(result.output) > prompts.SHORTENED_OUTPUT_CHARS:
                short_message = PromptMessage("user", prompts.shortened_turn_message(result))
                conversation.replace(message, short_message)
