"""What the editor shows, while a question is typed, of the files and variables that it points at."""

from __future__ import annotations

import re

from mahtab_tui.kernel.base import Completions, Kernel
from mahtab_tui.session.agent_thread import AgentThread
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.mentions import Chip, begun


class Preview:
    """Waits for the kernel: not for the main thread."""

    def __init__(self, kernel: Kernel, attachments: Attachments, agent: AgentThread) -> None:
        self._kernel = kernel
        self._attachments = attachments
        self._agent = agent

    def chips(self, question: str) -> list[Chip]:
        """What would go with a question now; only the heads of pictures are read, and no command runs."""
        chips = self._attachments.chips(question)
        if any(chip.picture for chip in chips) and self._agent.sees is False:
            return [chip._replace(size=f"{chip.size}, which the model does not see", missing=True) if chip.picture else chip for chip in chips]
        return chips

    def complete(self, question: str, cursor: int) -> Completions:
        """`complete_mention` in the session's kernel."""
        return complete_mention(self._kernel, question, cursor)


def complete_mention(kernel: Kernel, question: str, cursor: int) -> Completions:
    """The files or variables that the mention being typed at the cursor may become. Raises `KernelError`."""
    stem = begun(question[:cursor])
    if stem is None:
        return Completions(cursor, (), 0)
    code = f'open("{stem.stem}' if stem.kind == "path" else stem.stem
    found = kernel.complete(code, len(code))
    # Unquoted, a name ends at a blank.
    items = [item for item in found.items if stem.quoted or not re.search(r"\s", item.text)]
    wanted = ("file", "folder") if stem.kind == "path" else ("data", "function", "class", "module")
    items = [item for item in items if item.kind in wanted]
    return Completions(cursor - (len(code) - found.start), tuple(items), found.more)
