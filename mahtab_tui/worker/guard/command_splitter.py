"""Splits a shell command into its simple commands and words, as shells read it.

Shells differ. Where they may read a text in several ways, this says so rather than choosing one, because
what is read decides which files a command may change (`command_words`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .inserted_commands import InsertedCommands
from .printed_numbers import PRINTING_PARENTHESES
from .shell_words import NUMBER, PRINTED_NUMBER, Word, WordBuilder

_EXPANDED = re.compile(r"[A-Za-z0-9_({@*#?$!'\"-]")
"""What a dollar sign stands before if the shell replaces it."""
_PLAIN_BRACES = re.compile(r"\{[^'\"`\\${}]{0,200}\}")
"""What stands in ``${…}`` if it surely ends at the first closing brace."""
_PARAMETER = re.compile(
    r"\{(?:\w+|[@*#?$-])(?:\[(?:[@*]|(?P<index>[^\]]*))\])?"
    r"(?:(?P<assignment>:?=.*)|:(?P<part>[^-+?=].*)|(?::?[-+?]|[#%/^,]|@[QEAaUuLKk](?=\})).*)?\}"
    r"|\{#(?:\w+|[@*])(?:\[(?:[@*]|(?P<counted_index>[^\]]*))\])?\}"
    r"|\{!(?:\w+[@*]|\w+\[[@*]\])?\}",
    re.DOTALL,
)
"""What stands in ``${…}`` if it is not the value of a variable that another one names, nor a text that
is read as code. `index` and `part` are computed."""
_ARITHMETIC = re.compile(
    r"\(\((?P<expression>(?:[^()`'\"\\]|\((?:[^()`'\"\\]|\([^()`'\"\\]{0,200}\)){0,200}\)){0,500})\)\)"
)
"""Arithmetic in which no command, text or function stands."""
_LAST_WORD_END = re.compile(r"[ \t]*(?:[\n;&|)]|\Z)")
"""What follows the last word of a command."""
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_SEPARATES_COMMANDS = frozenset("\n;&|()")
_PATTERN_OPERATORS = frozenset("@!+*?")
"""Signs after which an open parenthesis belongs to a pattern of files."""
_WORD_CONTINUATION = re.compile(r"[\w.,/~*?\[\]@%+:-]")
"""Signs that continue a word after a closing parenthesis, in shells where parentheses make words."""
_ESCAPED_IN_QUOTES = '$`"\\\n'
"""What a backslash escapes between double quotes."""
_ANSI_QUOTE = "$'"
"""How a text begins in which some shells read backslashes, and others do not."""
_CONTINUED_SIGN = re.compile(r"[$(<]\\\n")
"""A sign that may mean something else together with the first one on the next line."""
_HERE_DOCUMENT = "<<"
_UNCLEAR_EXPANSION = re.compile(r"`|\$\(|\$\[|\$\{(?!\w{1,100}\})")
"""What may be a command, or set a variable, in a text that the shell expands."""
_EXPANSION_SIGNS = {"`": "`", "$(": "$(…)", "$[": "$[…]", "${": "${…}"}
"""How such expansions are shown, by their beginnings."""


def split_commands(text: str) -> list[list[Word]]:
    """Return the simple commands of a shell command, with their words; also of those in ``$(…)``.

    Where shells may read the text in several ways, a command is inserted whose name is expanded.
    For arithmetic, the command `let` is inserted, and an assignment for ``${x:=y}``.
    """
    return _Splitter(text).split()


class _HereDocument(NamedTuple):
    """A text that follows a command and is its input."""

    last_line: str
    """The line after it, which is the word behind ``<<``."""
    is_expanded: bool
    """Whether the shell puts something in it."""
    has_tabs: bool
    """Whether tabs at the beginnings of its lines do not count."""

    def is_ended_by(self, line: str) -> bool:
        """Return whether a line is the one after the text."""
        return (line.lstrip("\t") if self.has_tabs else line) == self.last_line


class _Parenthesis(NamedTuple):
    """An open parenthesis."""

    outer_quote: str
    """The quote in which it is."""
    output: str
    """What stands for the output of its commands in a word; empty unless it is one of ``$(…)``."""


class _Splitter:
    """Reads a shell command sign by sign."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        """Where the next sign is."""
        self._commands: list[list[Word]] = [[]]
        self._inserted = InsertedCommands(split_commands)
        self._word = WordBuilder()
        self._quote = ""
        """The sign of the quote that is open; empty if there is none."""
        self._parentheses: list[_Parenthesis] = []
        """The open parentheses, the outermost first."""
        self._has_arithmetic = False
        """Whether there were two open parentheses next to each other, except for plain arithmetic."""
        self._computed_end = 0
        """Where the last ``((…))`` ends."""
        self._backtick_quote: str | None = None
        """The quote in which the open backtick is; None if there is no open one."""
        self._ambiguous_parts: list[str] = []
        """What decides how a shell reads the text, although it is not known."""
        self._redirection = ""
        """The sign before the next word, if it is one of a redirection."""
        self._has_tabs = False
        """Whether the here-document that is about to be named is one of ``<<-``."""
        self._here_documents: list[_HereDocument] = []
        """The here-documents that begin on the next line."""

    def split(self) -> list[list[Word]]:
        """Return what `split_commands` does."""
        continued_sign = _CONTINUED_SIGN.search(self._text)
        if continued_sign is not None:
            self._note_ambiguity(continued_sign[0].strip())
        while self._index < len(self._text):
            sign = self._text[self._index]
            self._index += 1
            self._read_sign(sign)
        self._end_word()
        ambiguous_commands = [[Word(part, is_expanded=True)] for part in self._ambiguous_parts[:1]]
        commands = [*ambiguous_commands, *self._inserted.commands, *self._commands]
        return [words for words in commands if words]

    def _read_sign(self, sign: str) -> None:
        """Read a sign, and those after it that belong to it. The index is that of the next one."""
        if self._quote in ("'", _ANSI_QUOTE):
            self._read_literal(sign)
        elif sign == "\\":
            self._read_backslash()
        elif sign in "'\"" and self._quote in ("", sign):
            self._read_quote(sign)
        elif sign == "`":
            self._read_backtick()
        elif sign == "$" and self._next_sign() == "[":
            self._note_ambiguity("$[…]")
            self._add(sign)
        elif sign == "$" and _EXPANDED.match(self._next_sign()):
            self._read_expansion()
        elif self._quote:
            self._add(sign)
        else:
            self._read_unquoted(sign)

    def _read_unquoted(self, sign: str) -> None:
        """Read a sign outside of quotes that begins neither a quote nor an expansion."""
        if sign == "#" and not self._word.has_begun:
            self._skip_comment()
        elif sign in _ENDS_WORD:
            self._read_separator(sign)
        else:
            self._word.is_pattern |= sign in "*?["
            self._word.is_expanded |= sign == "{"
            self._add(sign)

    def _next_sign(self) -> str:
        return self._text[self._index : self._index + 1]

    def _add(self, text: str, *, is_quoted: bool = False) -> None:
        """Add a part of the word.

        Args:
            text: The part.
            is_quoted: Whether it counts as quoted although no quote is open.
        """
        self._word.add(text, is_quoted=is_quoted or self._quote != "")

    def _note_ambiguity(self, part: str) -> None:
        """Note that it is not known how the shell reads the text.

        Args:
            part: What it depends on.
        """
        self._ambiguous_parts.append(part)

    def _read_literal(self, sign: str) -> None:
        if sign == "'":
            self._quote = ""
            return
        self._add(sign)
        if sign in "`\\" and self._backtick_quote is not None:
            self._note_ambiguity("`")
        if sign == "\\" and self._quote == _ANSI_QUOTE and self._next_sign() in ("'", "\\"):
            self._note_ambiguity(_ANSI_QUOTE)
            self._add(self._next_sign())
            self._index += 1

    def _read_backslash(self) -> None:
        next_sign = self._next_sign()
        if self._backtick_quote or (self._backtick_quote == "" and next_sign == "`"):
            self._note_ambiguity("`")
        if self._quote and next_sign not in _ESCAPED_IN_QUOTES:
            self._add("\\")
            return
        self._index += 1
        self._word.has_quotes = True
        self._add("" if next_sign == "\n" else next_sign, is_quoted=True)

    def _read_quote(self, sign: str) -> None:
        if self._backtick_quote:
            self._note_ambiguity("`")
        self._quote = "" if self._quote else sign
        self._add("", is_quoted=True)
        self._word.has_quotes = True

    def _read_backtick(self) -> None:
        if self._backtick_quote is None:
            self._backtick_quote = self._quote
        else:
            if self._quote != self._backtick_quote:
                self._note_ambiguity("`")
            self._backtick_quote = None
            self._inserted.note_output("`", self._text, self._index)
        self._add("`")
        self._word.is_expanded = True
        self._end_command()

    def _read_expansion(self) -> None:
        """Read what follows a dollar sign, as far as it decides how the rest is read."""
        next_sign = self._next_sign()
        self._word.is_expanded = True
        if next_sign == "(":
            self._read_parenthesis_expansion()
            return
        is_ansi_quote = next_sign == "'" and not self._quote
        self._add("$", is_quoted=is_ansi_quote)
        if is_ansi_quote:
            self._index += 1
            self._quote = _ANSI_QUOTE
            self._word.has_quotes = True
        elif next_sign == "{":
            self._read_parameter()

    def _read_parenthesis_expansion(self) -> None:
        """Read ``$((…))``, or the beginning of ``$(…)``."""
        arithmetic = _ARITHMETIC.match(self._text, self._index)
        if arithmetic is not None:
            self._inserted.add_computation(arithmetic["expression"])
            self._add(NUMBER)
            self._index = arithmetic.end()
            return
        if self._text.startswith("((", self._index):
            self._note_ambiguity("$((…))")
        printed_number = PRINTING_PARENTHESES.match(self._text, self._index)
        is_number = printed_number is not None and self._ends_last_word(printed_number.end())
        output = PRINTED_NUMBER if is_number else "$(…)"
        self._index += 1
        self._add(output)
        self._open_parenthesis(output)

    def _ends_last_word(self, index: int) -> bool:
        """Return whether a word ends at an index of the text that is the last one of its command, or an
        operand of ``[[…]]``."""
        if self._quote:
            if not self._text.startswith(self._quote, index):
                return False
            index += 1
        if self._inserted.is_in_test and self._text.startswith((" ", "\t"), index):
            return True
        return _LAST_WORD_END.match(self._text, index) is not None

    def _read_parameter(self) -> None:
        """Read ``{…}`` after a dollar sign."""
        braces = _PLAIN_BRACES.match(self._text, self._index)
        parameter = None if braces is None else _PARAMETER.fullmatch(braces[0])
        if braces is None or parameter is None:
            self._note_ambiguity("${…}")
            return
        for group in ("index", "counted_index", "part"):
            self._inserted.add_computation(parameter[group] or "")
        if parameter["assignment"]:
            name = braces[0][1 : parameter.start("assignment")]
            self._inserted.add_assignment(name, parameter["assignment"].partition("=")[2])
        self._add(braces[0])
        self._index = braces.end()

    def _skip_comment(self) -> None:
        is_after_expansion = self._text[max(0, self._index - 2)] in ")`"
        if is_after_expansion or (self._has_arithmetic and self._parentheses):
            self._note_ambiguity("#")
        ends = [self._text.find("\n", self._index)]
        if self._backtick_quote is not None:
            ends.append(self._text.find("`", self._index))
        end = min((end for end in ends if end >= 0), default=len(self._text))
        if self._backtick_quote is not None and self._text[end - 1] == "\\":
            self._note_ambiguity("`")
        self._index = end

    def _read_separator(self, sign: str) -> None:
        self._end_word()
        if sign in "<>":
            self._read_redirection(sign)
        elif sign == "(":
            # A pattern, or what a shell that is not POSIX reads as part of a word.
            is_in_word = self._text[self._index - 2 : self._index - 1] in _PATTERN_OPERATORS
            if self._index > 1 and is_in_word:
                self._note_ambiguity(self._text[self._index - 2 : self._index])
            if self._next_sign() == "(":
                self._note_arithmetic_command()
            self._open_parenthesis()
        elif sign in _SEPARATES_COMMANDS:
            self._end_command()
            if sign == "\n":
                self._read_here_documents()
            if sign == ")" and self._parentheses:
                self._close_parenthesis()

    def _close_parenthesis(self) -> None:
        """Go on with what is around the innermost parenthesis."""
        parenthesis = self._parentheses.pop()
        self._quote = parenthesis.outer_quote
        ends_word = not _WORD_CONTINUATION.match(self._next_sign())
        if not parenthesis.output and not ends_word and not self._quote:
            self._note_ambiguity(")")
        self._inserted.note_output(parenthesis.output, self._text, self._index)

    def _note_arithmetic_command(self) -> None:
        """Note what is computed in ``((…))``, besides reading it as commands."""
        arithmetic = _ARITHMETIC.match(self._text, self._index - 1)
        if arithmetic is None:
            self._note_ambiguity("((…))")
            return
        self._inserted.add_computation(arithmetic["expression"])
        self._computed_end = arithmetic.end()

    def _read_redirection(self, sign: str) -> None:
        self._redirection = sign
        if sign == ">" or self._next_sign() != "<":
            return
        self._index += 1
        if self._next_sign() == "<":  # a text on the same line
            self._index += 1
            return
        if self._has_arithmetic:  # where this shifts a number
            self._note_ambiguity(_HERE_DOCUMENT)
        self._redirection = _HERE_DOCUMENT
        self._has_tabs = self._next_sign() == "-"
        self._index += self._has_tabs

    def _read_here_documents(self) -> None:
        """Skip the texts that begin here. What they expand may be commands."""
        for document in self._here_documents:
            while self._index < len(self._text):
                line = self._skip_line()
                if document.is_ended_by(line):
                    break
                unclear_expansion = _UNCLEAR_EXPANSION.search(line)
                if document.is_expanded and unclear_expansion is not None:
                    self._note_ambiguity(_EXPANSION_SIGNS[unclear_expansion[0]])
        self._here_documents = []

    def _skip_line(self) -> str:
        """Return the rest of the line, without its end, and go to the next one."""
        end = self._text.find("\n", self._index)
        if end < 0:
            end = len(self._text)
        line = self._text[self._index : end]
        self._index = min(end + 1, len(self._text))
        return line

    def _open_parenthesis(self, output: str = "") -> None:
        """Begin the commands in parentheses.

        Args:
            output: What stands for what they print in a word.
        """
        self._has_arithmetic |= self._text.startswith("((", self._index - 2)
        self._end_command()
        self._parentheses.append(_Parenthesis(self._quote, output))
        self._quote = ""

    def _end_word(self) -> None:
        word = self._word
        if not word.has_begun:
            return
        self._inserted.note_word(word.text)
        if self._redirection == _HERE_DOCUMENT:
            is_expanded = not word.has_quotes
            self._here_documents.append(_HereDocument(word.text, is_expanded, self._has_tabs))
        else:
            self._commands[-1].append(self._finished_word())
        if word.text == "case" and any(
            parenthesis.outer_quote for parenthesis in self._parentheses
        ):
            # The parentheses after its patterns do not end what began before it.
            self._note_ambiguity(word.text)
        self._redirection = ""
        self._word = WordBuilder()

    def _finished_word(self) -> Word:
        word = self._word
        return Word(
            word.text,
            word.is_expanded,
            word.is_pattern,
            self._redirection,
            word.unquoted_text,
            is_computed=self._index < self._computed_end,
        )

    def _end_command(self) -> None:
        self._end_word()
        self._redirection = ""
        if self._commands[-1]:
            self._commands.append([])
