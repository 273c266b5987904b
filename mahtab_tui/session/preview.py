"""Previews and completes the mentions in a question while it is typed."""

from __future__ import annotations

import re

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.code_help import Completions
from mahtab_tui.session.agent_thread import AgentThread
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.mentions import MentionChip, mention_before


class QuestionPreview:
    """Previews and completes mentions. It waits for the kernel: never call it on the main thread."""

    def __init__(self, kernel: Kernel, attachments: Attachments, agent: AgentThread) -> None:
        self._kernel = kernel
        self._attachments = attachments
        self._agent = agent

    def chips(self, question: str) -> list[MentionChip]:
        """QuestionPreview the attachments of a question. Only the heads of pictures are read, and no command runs."""
        chips = self._attachments.chips(question)
        if any(chip.picture for chip in chips) and self._agent.sees is False:
            return [chip._replace(size=f"{chip.size}, which the model does not see", missing=True) if chip.picture else chip for chip in chips]
        return chips

    def complete(self, question: str, cursor: int) -> Completions:
        """Complete the mention at the cursor. Raises `KernelError`."""
        return complete_mention(self._kernel, question, cursor)


def complete_mention(kernel: Kernel, question: str, cursor: int) -> Completions:
    """Complete the mention at the cursor to files or variables. Raises `KernelError`."""
    stem = mention_before(question[:cursor])
    if stem is None:
        return Completions(cursor, (), 0)
    code = f'open("{stem.stem}' if stem.kind == "path" else stem.stem
    found = kernel.complete(code, len(code))
    # An unquoted path ends at a blank.
    items = [item for item in found.items if stem.quoted or not re.search(r"\s", item.text)]
    wanted = ("file", "folder") if stem.kind == "path" else ("data", "function", "class", "module")
    items = [item for item in items if item.kind in wanted]
    return Completions(cursor - (len(code) - found.start), tuple(items), found.more)
