"""The words of shell commands, as `command_splitter` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NUMBER = "$((…))"
"""What stands in a word for a number that the shell computes."""
PRINTED_NUMBER = "$((#))"
"""What stands in a word for a number that a command prints, if its name means what it says."""
COMPUTING_COMMAND = "let"
"""The command that computes its arguments. It is inserted for each arithmetic expression."""


class Word(NamedTuple):
    """A word of a command, without its quotes."""

    text: str
    is_expanded: bool = False
    """Whether the shell puts something in it: a variable, the output of a command, one of several
    texts."""
    is_pattern: bool = False
    """Whether it stands for the files whose names match it."""
    redirection: str = ""
    """``>`` if the command's output goes to it, ``<`` if its input comes from it."""
    unquoted_text: str = ""
    """The text, with a space in place of each sign that is quoted: the shell may make several words of
    what it puts in the rest."""
    is_computed: bool = False
    """Whether it is a part of ``((…))``, which most shells compute, and others run as a command."""


class WordBuilder:
    """A word that is being read."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unquoted_pieces: list[str] = []
        """The pieces, with a space in place of each that is quoted."""
        self.has_begun = False
        """Whether there is a word: an empty one, if it consists of quotes."""
        self.has_quotes = False
        self.is_expanded = False
        self.is_pattern = False

    @property
    def text(self) -> str:
        """What of the word was read."""
        return "".join(self._pieces)

    @property
    def unquoted_text(self) -> str:
        """As in `Word`."""
        return "".join(self._unquoted_pieces)

    def add(self, piece: str, *, is_quoted: bool) -> None:
        """Add a piece, which may be empty."""
        self._pieces.append(piece)
        self._unquoted_pieces.append(" " if is_quoted else piece)
        self.has_begun = True


def join_words(words: Sequence[str]) -> str:
    """Return the shell command that starts a program with these arguments."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
