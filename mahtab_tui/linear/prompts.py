"""The base class of the two prompts of this interface, and the exceptions that end them.

`DrawnPrompt` draws the input again while the user types; `PlainPrompt` draws nothing again.
"""

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
"""At the very start of an input, this key goes from Python to questions and back."""


class TypedInput(NamedTuple):
    """What the user has entered: a cell, a question, or a command."""

    mode: Mode
    """The mode in which it was entered. The user may have changed it since the prompt opened."""
    text: str
    """Without newlines at its start and end."""


class Prompt(ABC):
    """Reads the user's inputs. Main thread only, unless a method says otherwise."""

    def __init__(self) -> None:
        self.mode: Mode = "python"
        self.draft = ""
        """The text with which the next input begins."""

    def toggle_mode(self) -> None:
        """Go from Python to questions, or back."""
        self.mode = "ask" if self.mode == "python" else "python"

    @property
    @abstractmethod
    def can_edit(self) -> bool:
        """Whether an input can begin with a draft that the user edits."""

    def label(self, number: int) -> str:
        """Return the words before an input.

        Args:
            number: The number of the next cell.
        """
        return f"In {number}: " if self.mode == "python" else "Ask: "

    @abstractmethod
    def read_input(self, number: int) -> TypedInput:
        """Wait for the next input, which may have several lines, and return it.

        Args:
            number: The number of the next cell.

        Raises:
            EOFError: The user leaves.
            KeyboardInterrupt: The user gives up the input.
            FullScreenWanted: The user wants to go on in the full screen.
            Interrupted: `interrupt` was called.
        """

    @abstractmethod
    def read_answer(self, label: str, *, is_hidden: bool = False) -> str:
        """Wait for a line that answers a question, and return it. A cell may run meanwhile.

        Args:
            label: The words before the line.
            is_hidden: Whether the terminal shows nothing of what is typed.

        Raises:
            EOFError: The user does not answer.
            KeyboardInterrupt: The user gives up the line.
            FullScreenWanted: The user wants to go on in the full screen.
        """

    @abstractmethod
    def write_while_typing(self, write: Callable[[], None]) -> bool:
        """Let a function write lines while the user types. Other threads call this.

        What is typed so far stays in the prompt.

        Args:
            write: Writes the lines.

        Returns:
            Whether `write` was called, or will be unless the user ends the prompt first.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """Let `read_input` raise `Interrupted`, or ask the user to end the input.

        Other threads call this.
        """


class Interrupted(Exception):
    """The session has to ask the user something; what is typed so far comes back afterwards."""


class FullScreenWanted(Exception):
    """The user wants to go on in the full screen."""


def find_completions(
    input_help: SessionInputHelp, text: str, cursor: int, mode: Mode
) -> Completions | None:
    """Complete what stands before the cursor. Waits for the kernel.

    Args:
        input_help: Knows commands, names and files.
        text: The input.
        cursor: The cursor's offset in the input, in characters.
        mode: What the input is.

    Returns:
        The completions; None if nothing can be completed, or the kernel does not answer.
    """
    completions = input_help.complete_command(text, cursor)
    if completions is not None:
        return completions
    try:
        if mode == "python":
            return input_help.complete(text, cursor)
        return input_help.complete_question(text, cursor)
    except KernelError:
        return None
