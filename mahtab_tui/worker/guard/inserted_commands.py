"""Commands that stand for what a shell computes, or sets, while it reads the words of others.

They are inserted before the commands of a text, so that their words are looked at like all others
(`shell_arithmetic`).
"""

from __future__ import annotations

import re
from typing import Callable

from .printed_numbers import INNER_NUMBER
from .shell_words import COMPUTING_COMMAND, PRINTED_NUMBER, Word

_PLAIN_ARITHMETIC = re.compile(r"[\d\s+*/%<>=!&|^~?:;,()-]*")
"""Arithmetic without variables. The value of a variable would be computed, too, and may set others, or
contain commands."""
_COMPARISONS = frozenset("-eq -ne -lt -le -gt -ge".split())
"""Operators in ``[[…]]`` whose operands are computed."""
_VARIABLE_TESTS = frozenset(("-v", "-R"))
"""Operators in ``[[…]]`` before a variable, the index of whose item is computed."""
_MAY_BE_ITEM = re.compile(r"[\[$`]")
"""A sign of a word that may name an item, whose index is computed."""
_COMPARISON = re.compile(r"[\"'\\]?\s{0,20}[\"'\\]?-(?:eq|ne|lt|le|gt|ge)\b")
"""Such an operator after the output of a command, perhaps behind a closing quote."""


class InsertedCommands:
    """Collects the commands for one text."""

    def __init__(self, split: Callable[[str], list[list[Word]]]) -> None:
        """
        Args:
            split: Splits a text into commands, as `split_commands` does.
        """
        self.commands: list[list[Word]] = []
        self.is_in_test = False
        """Whether ``[[`` is open, which computes some of its words."""
        self._split = split
        self._previous_word = ""
        """The word before, which ``[[`` may compare."""

    def add_assignment(self, name: str, value: str) -> None:
        """Add a command for a variable that an expansion sets, as ``${x:=y}`` does."""
        self.commands.append([Word(f"{name}={value}", is_expanded=True)])

    def add_computation(self, expression: str) -> None:
        """Add a command for arithmetic in which there are variables."""
        for number in INNER_NUMBER.finditer(expression):
            self.commands += self._split(number["pipe"] or "")
        expression = INNER_NUMBER.sub(PRINTED_NUMBER, expression)
        if _PLAIN_ARITHMETIC.fullmatch(expression) is None:
            self.commands.append([Word(COMPUTING_COMMAND), Word(expression)])

    def note_output(self, output: str, text: str, index: int) -> None:
        """Add a command for the output of another one if ``[[…]]`` computes it.

        Args:
            output: What stands for the output in a word.
            text: The text.
            index: Where it goes on after the other command.
        """
        if self.is_in_test and _COMPARISON.match(text, index):
            self.add_computation(output)

    def note_word(self, text: str) -> None:
        """Add commands for what ``[[…]]`` computes of its next word and the one before."""
        previous = self._previous_word
        self._previous_word = text
        self.is_in_test = text == "[[" or (self.is_in_test and text != "]]")
        if not self.is_in_test:
            return
        if text in _COMPARISONS:
            self.add_computation(previous)
        is_item = _MAY_BE_ITEM.search(text) is not None
        if previous in _COMPARISONS or (previous in _VARIABLE_TESTS and is_item):
            self.add_computation(text)
