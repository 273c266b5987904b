"""What the two prompts have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.kernel.base import KernelError

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.kernel.values import Completions
    from mahtab_tui.session.open_session import SessionInputHelp

MODE_KEY = "`"
"""At the very start of an input, it goes from Python to questions and back."""


class Typed(NamedTuple):
    """An input of the user."""

    mode: Mode
    text: str


class Prompt(ABC):
    """Reads the user's inputs. Main thread only, unless a method says otherwise."""

    def __init__(self) -> None:
        self.mode: Mode = "python"
        self.draft = ""
        """What is in the next prompt at first."""

    def toggle_mode(self) -> None:
        """Go from Python to questions, or back."""
        self.mode = "ask" if self.mode == "python" else "python"

    @property
    @abstractmethod
    def can_edit(self) -> bool:
        """Whether an input can begin with a draft, which the user edits."""

    def label(self, number: int) -> str:
        """Return what stands before an input. number: that of the next cell."""
        return f"In {number}: " if self.mode == "python" else "Ask: "

    @abstractmethod
    def read(self, number: int) -> Typed:
        """Return the next input. Raises `EOFError` if the user leaves, `KeyboardInterrupt` if the user
        gives up the input, `FullScreenWanted`, and `Interrupted`.

        Args:
            number: That of the next cell.
        """

    @abstractmethod
    def read_line(self, label: str, *, is_hidden: bool = False) -> str:
        """Return a line that answers a question, also while a cell runs. Raises `EOFError` and
        `KeyboardInterrupt`.

        Args:
            label: What stands before it.
            is_hidden: Whether what is typed is not shown.
        """

    @abstractmethod
    def write_above(self, write: Callable[[], None]) -> bool:
        """Let a function write lines while the user types. Called on another thread.

        Returns:
            Whether the function was called, or will be unless the user ends the prompt before.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """Let `read` raise `Interrupted`, or the user end it. Called on another thread."""


class Interrupted(Exception):
    """The session has to ask the user something; what is typed so far comes back afterwards."""


class FullScreenWanted(Exception):
    """The user wants to go on in the full screen."""


def complete(
    input_help: SessionInputHelp, text: str, cursor: int, mode: Mode
) -> Completions | None:
    """Complete what is before the cursor; None if nothing can be. Waits for the kernel."""
    completions = input_help.complete_command(text, cursor)
    if completions is not None:
        return completions
    try:
        if mode == "python":
            return input_help.complete(text, cursor)
        return input_help.complete_question(text, cursor)
    except KernelError:
        return None
