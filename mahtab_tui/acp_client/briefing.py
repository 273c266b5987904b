"""What an agent is told with a question."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.agent.host import StoredMessage
from mahtab_tui.agent.visible_messages import visible_text
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.llm.prompt_sections import earlier_conversation
from mahtab_tui.llm.prompts import user_turn

MAX_TOLD_CHARS = 60_000
"""Characters of the end of a conversation that an agent is told."""
INTRODUCTION = (
    "You work in mahtab-tui, a terminal in which you and a user share one live Python namespace."
    " The tools of the MCP server mahtab run Python in it: call eval for all Python, and whenever a question is about the user's variables or data."
    " Variables stay from call to call. The user sees each cell with its output, and may have to allow it first; undo takes it back."
)


def write_question(
    question: StoredMessage,
    earlier: Sequence[StoredMessage],
    hidden: HiddenEntries,
    *,
    is_first: bool,
) -> str:
    """Return what an agent gets.

    Args:
        question: The question with its context.
        earlier: What was said since the agent's last answer.
        hidden: The entries that it does not get.
        is_first: Whether its session begins with this question.
    """
    parts = [INTRODUCTION] if is_first else []
    texts = [f"{message.role}: {visible_text(message, hidden)}" for message in earlier]
    if texts:
        parts.append(earlier_conversation("\n\n".join(texts)[-MAX_TOLD_CHARS:]))
    # How a model is led concerns code blocks, which an agent does not write.
    parts.append(user_turn(question.context, question.variables, question.text))
    return "\n\n".join(parts)
