"""Splits a shell command into its simple commands and words, as shells read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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
NUMBER = "$((…))"
"""What stands in a word for a number that the shell computes."""
PRINTED_NUMBER = "$((#))"
"""What stands in a word for a number that a command prints, if its name means what it says."""
_ARITHMETIC = re.compile(
    r"\(\((?P<expression>(?:[^()`'\"\\]|\((?:[^()`'\"\\]|\([^()`'\"\\]{0,200}\)){0,200}\)){0,500})\)\)"
)
"""Arithmetic in which no command, text or function stands."""
_PLAIN_ARITHMETIC = re.compile(r"[\d\s+*/%<>=!&|^~?:;,()-]*")
"""Arithmetic without variables. The value of a variable would be computed, too, and may set others, or
contain commands."""
_PLAIN_WORD = r"(?!-)(?:[\w./-]{1,200}|\"(?!-)[\w ./-]{1,200}\"|'(?!-)[\w ./-]{1,200}')"
_GREP_COUNT = rf"grep -[EFivw]{{0,4}}c[EFivw]{{0,4}} {_PLAIN_WORD}"
_COUNTING = "|".join(
    (
        r"nproc(?: --all)?|id -[ug]|seq(?: -?\d{1,20}){1,3}",
        r"date(?: -u)? \+%(?:s(?:%N)?|[YymdHMSju])",
        rf"wc -[clmw] ?< ?{_PLAIN_WORD}",
        rf"{_GREP_COUNT} {_PLAIN_WORD}|stat -c %[sXYZ] {_PLAIN_WORD}",
        r"git rev-list --count [\w./~^][\w./~^-]{0,200}",
    )
)
"""A command that prints numbers alone, and has no other command in it. `wc` with a file is none,
because it also prints the file's name."""
_COUNTING_PIPE = (
    rf"(?:(?:[^()`'\"\\\n;&|#]|'[^'\n]{{0,100}}'){{1,200}}\|){{1,20}} ?(?:wc -[clmw]|{_GREP_COUNT})"
)
"""Commands of which the last one counts what the others print."""
_PRINTED_NUMBER = re.compile(rf"\((?:{_COUNTING}|{_COUNTING_PIPE})\)")
"""What stands after the dollar sign of commands that print numbers."""
_INNER_NUMBER = re.compile(rf"\$\((?:{_COUNTING}|(?P<pipe>{_COUNTING_PIPE}))\)")
_LAST_WORD_END = re.compile(r"[ \t]*(?:[\n;&|)]|\Z)")
"""What follows the last word of a command."""
COMPUTING_COMMAND = "let"
"""The command that computes its arguments. It is inserted for each arithmetic expression."""
_COMPARISONS = frozenset("-eq -ne -lt -le -gt -ge".split())
"""Operators in ``[[…]]`` whose operands are computed."""
_VARIABLE_TESTS = frozenset(("-v", "-R"))
"""Operators in ``[[…]]`` before a variable, the index of whose item is computed."""
_MAY_BE_ITEM = re.compile(r"[\[$`]")
_COMPARISON = re.compile(r"[\"'\\]?\s{0,20}[\"'\\]?-(?:eq|ne|lt|le|gt|ge)\b")
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


def join_words(words: Sequence[str]) -> str:
    """Return the shell command that starts a program with these arguments."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def split_commands(text: str) -> list[list[Word]]:
    """Return the simple commands of a shell command, with their words; also of those in ``$(…)``.

    Where shells may read the text in several ways, a command is inserted whose name is expanded.
    For arithmetic, the command `let` is inserted, and an assignment for ``${x:=y}``.
    """
    return _Splitter(text).split()


class _HereDocument(NamedTuple):
    """A text that follows a command and is its input."""

    last_line: str
    is_expanded: bool
    has_tabs: bool
    """Whether tabs at the beginnings of its lines do not count."""


class _Parenthesis(NamedTuple):
    """An open parenthesis."""

    outer_quote: str
    """The quote in which it is."""
    output: str
    """What stands for the output of its commands in a word; empty if it is none of ``$(…)``."""


class _Splitter:
    """Reads a shell command sign by sign."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        """Where the next sign is."""
        self._commands: list[list[Word]] = [[]]
        self._inserted_commands: list[list[Word]] = []
        self._quote = ""
        self._parentheses: list[_Parenthesis] = []
        """The open parentheses, the outermost first."""
        self._has_arithmetic = False
        """Whether there were two open parentheses next to each other, except for plain arithmetic."""
        self._is_in_test = False
        """Whether ``[[`` is open."""
        self._previous_word = ""
        self._computed_end = 0
        """Where the last ``((…))`` ends."""
        self._backtick_quote: str | None = None
        """The quote in which the open backtick is; None if there is no open one."""
        self._ambiguous_parts: list[str] = []
        self._redirection = ""
        self._has_tabs = False
        """Whether the here-document that is about to be named is one of ``<<-``."""
        self._here_documents: list[_HereDocument] = []
        """The here-documents that begin on the next line."""
        self._clear_word()

    def _clear_word(self) -> None:
        self._pieces: list[str] = []
        self._unquoted_pieces: list[str] = []
        self._is_word = False
        self._has_quotes = False
        self._is_expanded = False
        self._is_pattern = False

    def split(self) -> list[list[Word]]:
        continued_sign = _CONTINUED_SIGN.search(self._text)
        if continued_sign is not None:
            self._note_ambiguity(continued_sign[0].strip())
        while self._index < len(self._text):
            sign = self._text[self._index]
            self._index += 1
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
            elif sign == "#" and not self._is_word:
                self._skip_comment()
            elif sign in _ENDS_WORD:
                self._read_separator(sign)
            else:
                self._is_pattern |= sign in "*?["
                self._is_expanded |= sign == "{"
                self._add(sign)
        self._end_word()
        ambiguous_commands = [[Word(part, is_expanded=True)] for part in self._ambiguous_parts[:1]]
        commands = [*ambiguous_commands, *self._inserted_commands, *self._commands]
        return [words for words in commands if words]

    def _next_sign(self) -> str:
        return self._text[self._index : self._index + 1]

    def _add(self, text: str, *, is_quoted: bool = False) -> None:
        """Add a part of the word.

        Args:
            text: The part.
            is_quoted: Whether it counts as quoted although no quote is open.
        """
        self._pieces.append(text)
        self._unquoted_pieces.append(" " if is_quoted or self._quote else text)
        self._is_word = True

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
        self._has_quotes = True
        self._add("" if next_sign == "\n" else next_sign, is_quoted=True)

    def _read_quote(self, sign: str) -> None:
        if self._backtick_quote:
            self._note_ambiguity("`")
        self._quote = "" if self._quote else sign
        self._add("", is_quoted=True)
        self._has_quotes = True

    def _read_backtick(self) -> None:
        if self._backtick_quote is None:
            self._backtick_quote = self._quote
        else:
            if self._quote != self._backtick_quote:
                self._note_ambiguity("`")
            self._backtick_quote = None
            self._insert_tested_output("`")
        self._add("`")
        self._is_expanded = True
        self._end_command()

    def _read_expansion(self) -> None:
        """Read what follows a dollar sign, as far as it decides how the rest is read."""
        next_sign = self._next_sign()
        self._is_expanded = True
        if next_sign == "(":
            self._read_parenthesis_expansion()
            return
        is_ansi_quote = next_sign == "'" and not self._quote
        self._add("$", is_quoted=is_ansi_quote)
        if is_ansi_quote:
            self._index += 1
            self._quote = _ANSI_QUOTE
            self._has_quotes = True
        elif next_sign == "{":
            self._read_parameter()

    def _read_parenthesis_expansion(self) -> None:
        """Read ``$((…))``, or the beginning of ``$(…)``."""
        arithmetic = _ARITHMETIC.match(self._text, self._index)
        if arithmetic is not None:
            self._insert_computation(arithmetic["expression"])
            self._add(NUMBER)
            self._index = arithmetic.end()
            return
        if self._text.startswith("((", self._index):
            self._note_ambiguity("$((…))")
        printed_number = _PRINTED_NUMBER.match(self._text, self._index)
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
        if self._is_in_test and self._text.startswith((" ", "\t"), index):
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
            self._insert_computation(parameter[group] or "")
        if parameter["assignment"]:
            name = braces[0][1 : parameter.start("assignment")]
            value = parameter["assignment"].partition("=")[2]
            self._inserted_commands.append([Word(f"{name}={value}", is_expanded=True)])
        self._add(braces[0])
        self._index = braces.end()

    def _insert_computation(self, expression: str) -> None:
        """Insert a command for arithmetic in which there are variables."""
        for number in _INNER_NUMBER.finditer(expression):
            self._inserted_commands += split_commands(number["pipe"] or "")
        expression = _INNER_NUMBER.sub(PRINTED_NUMBER, expression)
        if _PLAIN_ARITHMETIC.fullmatch(expression) is None:
            self._inserted_commands.append([Word(COMPUTING_COMMAND), Word(expression)])

    def _insert_tested_output(self, output: str) -> None:
        """Insert a command for the output of another one if ``[[…]]`` computes it."""
        if self._is_in_test and _COMPARISON.match(self._text, self._index):
            self._insert_computation(output)

    def _insert_tested_word(self, text: str) -> None:
        """Insert commands for what ``[[…]]`` computes of its next word and the one before."""
        previous = self._previous_word
        self._previous_word = text
        self._is_in_test = text == "[[" or (self._is_in_test and text != "]]")
        if not self._is_in_test:
            return
        if text in _COMPARISONS:
            self._insert_computation(previous)
        is_item = _MAY_BE_ITEM.search(text) is not None
        if previous in _COMPARISONS or (previous in _VARIABLE_TESTS and is_item):
            self._insert_computation(text)

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
                parenthesis = self._parentheses.pop()
                self._quote = parenthesis.outer_quote
                ends_word = not _WORD_CONTINUATION.match(self._next_sign())
                if not parenthesis.output and not ends_word and not self._quote:
                    self._note_ambiguity(")")
                self._insert_tested_output(parenthesis.output)

    def _note_arithmetic_command(self) -> None:
        """Note what is computed in ``((…))``, besides reading it as commands."""
        arithmetic = _ARITHMETIC.match(self._text, self._index - 1)
        if arithmetic is None:
            self._note_ambiguity("((…))")
            return
        self._insert_computation(arithmetic["expression"])
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
                end = self._text.find("\n", self._index)
                end = len(self._text) if end < 0 else end
                line = self._text[self._index : end]
                self._index = min(end + 1, len(self._text))
                if (line.lstrip("\t") if document.has_tabs else line) == document.last_line:
                    break
                unclear_expansion = _UNCLEAR_EXPANSION.search(line)
                if document.is_expanded and unclear_expansion is not None:
                    self._note_ambiguity(_EXPANSION_SIGNS[unclear_expansion[0]])
        self._here_documents = []

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
        if not self._is_word:
            return
        text = "".join(self._pieces)
        self._insert_tested_word(text)
        if self._redirection == _HERE_DOCUMENT:
            self._here_documents.append(_HereDocument(text, not self._has_quotes, self._has_tabs))
        else:
            word = Word(
                text,
                self._is_expanded,
                self._is_pattern,
                self._redirection,
                "".join(self._unquoted_pieces),
                is_computed=self._index < self._computed_end,
            )
            self._commands[-1].append(word)
        if text == "case" and any(parenthesis.outer_quote for parenthesis in self._parentheses):
            # The parentheses after its patterns do not end what began before it.
            self._note_ambiguity(text)
        self._redirection = ""
        self._clear_word()

    def _end_command(self) -> None:
        self._end_word()
        self._redirection = ""
        if self._commands[-1]:
            self._commands.append([])
