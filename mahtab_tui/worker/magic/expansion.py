"""Fills values of Python into shell commands and into the arguments of magics, as IPython does."""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, Callable

_TOKEN = re.compile(
    r"""
      (?P<escape>\\.)
    | (?P<quote>['"])
    | \$\$(?P<shell>[^\W\d]\w*|\{[^\W\d]\w*)
    | \$(?P<path>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
    | \$\{(?P<parameter>[^\W\d]\w*)(?P<default>:?[-=?+])?
    | (?<!\$)\{\{(?P<literal>[^{}]*|\{[^{}]*\}|\{\{[^{}]*\}\})\}\}
    | (?<![${])\{(?P<expression>[^{}]+)\}(?!\})
    """,
    re.VERBOSE | re.DOTALL,
)
"""What may stand for a value, and the double braces of `{{name}}`, which become `{name}`."""

_ASSIGNMENT = re.compile(
    r"""
      (?<![\w$.-])(?P<assigned>[^\W\d]\w*)\+?=
    | \b(?:for|select)[ \t]+(?P<loop>[^\W\d]\w*)
    | \b(?:read|mapfile|readarray|getopts)\b(?P<read>[^;|&<>\n]*)
    """,
    re.VERBOSE,
)
_NAME = re.compile(r"[^\W\d]\w*")

_SHELL_NAMES = frozenset(
    "BASH BASHPID BASH_VERSION DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD HOSTNAME HOSTTYPE IFS LINENO MACHTYPE"
    " OLDPWD OPTARG OPTIND OSTYPE PATH PIPESTATUS PPID PS4 PWD RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID _".split()
)
"""Variables that the shell itself sets."""

_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
"""What the letter after the exclamation mark calls, such as `repr` in `{name!r}`."""

_MISSING = object()


class UnknownNameError(NameError):
    """A command has a `$name` that nothing sets."""

    __module__ = "builtins"


class Names:
    """The names that a line of code sees: local ones, then those of the namespace."""

    def __init__(self, namespace: dict[str, object], local_names: Mapping[str, object]) -> None:
        self.namespace = namespace
        self.local_names = local_names

    @classmethod
    def of_frame(cls, frame: FrameType) -> Names:
        """Return the names that the code of a frame sees."""
        return cls(frame.f_globals, frame.f_locals)

    @classmethod
    def of_caller(cls) -> Names:
        """Return the names that the code sees which has called the calling function."""
        return cls.of_frame(sys._getframe(2))

    def find(self, name: str) -> object:
        """Return a variable's value. Raises `NameError` if there is no such variable."""
        value = self.value(name)
        if value is _MISSING:
            raise NameError(f"name {name!r} is not defined")
        return value

    def value(self, name: str) -> Any:
        """Return a variable's value, or `_MISSING`. Builtins are not variables."""
        return self.local_names.get(name, self.namespace.get(name, _MISSING))

    def evaluate(self, expression: str) -> object:
        return eval(expression, self.namespace, dict(self.local_names))


def expand_command(command: str, names: Names) -> str:
    """Replace `$name`, `$name.attribute` and `{expression}` in a shell command with their values.

    As in IPython, `$` means nothing between single quotes, `$$name` becomes the shell's `$name`,
    and `{{name}}` becomes `{name}`. An expression that cannot be evaluated stays as it is (awk's `{print $1}`).

    Raises:
        UnknownNameError: neither Python nor the shell has a name. The shell would replace it with
            nothing, so that `rm -rf $folder/*` would delete everything.
    """
    return _Expansion(command, names).run()


def expand_arguments(arguments: str, names: Names) -> str:
    """Do the same as `expand_command` for the arguments of a magic.

    No shell reads them afterwards, so this also replaces variables of the environment.
    """
    return _ArgumentExpansion(arguments, names).run()


class _Expansion:
    """Replaces names and expressions in one shell command."""

    def __init__(self, text: str, names: Names) -> None:
        self._text = text
        self._names = names
        self._quote = ""
        """The quotation mark that is open; empty outside of quotation marks."""
        self._assigned_names: frozenset[str] | None = None
        """The names that the command sets; None until they are looked for."""

    def run(self) -> str:
        pieces: list[str] = []
        position = 0
        while token := _TOKEN.search(self._text, position):
            pieces.append(self._text[position : token.start()])
            position = token.end()
            replacement = self._replace(token)
            if replacement is None:
                # The braces are the shell's. What they enclose may still contain names.
                replacement = "{"
                position = token.start() + 1
            pieces.append(replacement)
        return "".join([*pieces, self._text[position:]])

    def _replace(self, token: re.Match[str]) -> str | None:
        """Return what to write for a token; None for braces that are not Python's."""
        written = token[0]
        if token["quote"]:
            self._note_quote(written)
            return written
        if token["literal"] is not None:
            return f"{{{self._expand_inner(token['literal'])}}}"
        if token["expression"]:
            return self._evaluate(token["expression"].strip())
        if self._quote == "'":
            # A backslash means nothing there: the quotation mark after it ends the text.
            if written == "\\'":
                self._quote = ""
            return written
        if token["shell"]:
            return written[1:]
        if token["path"]:
            return self._fill_path(token["path"])
        if token["parameter"]:
            return self._fill_parameter(written, token["parameter"], token["default"] or "")
        return written

    def _expand_inner(self, text: str) -> str:
        """Replace what stands between double braces."""
        if self._assigned_names is None:
            self._assigned_names = _find_assigned_names(self._text)
        inner = type(self)(text, self._names)
        inner._quote = self._quote
        inner._assigned_names = self._assigned_names
        return inner.run()

    def _note_quote(self, mark: str) -> None:
        if not self._quote:
            self._quote = mark
        elif self._quote == mark:
            self._quote = ""

    def _evaluate(self, expression: str) -> str | None:
        """Return the value of what stands between braces; None if it is not Python's."""
        convert: Callable[[object], str] = str
        if expression[-2:-1] == "!" and expression[-1] in _CONVERSIONS:
            convert = _CONVERSIONS[expression[-1]]
            expression = expression[:-2]
        if not self._looks_like_python(expression):
            return None
        try:
            return convert(self._names.evaluate(expression))
        except Exception:  # raised by the user's expression, which may be another language's
            return None

    def _looks_like_python(self, expression: str) -> bool:
        """Return False for the shell's `{a,b}`, a pattern's `{3}`, and awk's `{print}`."""
        try:
            body = ast.parse(expression, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        if isinstance(body, ast.Name) and self._names.value(body.id) is _MISSING:
            return not callable(builtins.__dict__.get(body.id))
        return not isinstance(body, (ast.Constant, ast.Tuple))

    def _fill_path(self, path: str) -> str:
        """Return what to write for `$name` or `$name.attribute`."""
        name, *attributes = path.split(".")
        value = self._names.value(name)
        if value is _MISSING:
            value = self._external_value(name)
            if value is None:
                raise UnknownNameError(
                    f"neither Python nor the environment has a variable {name!r}. Write $${name} for a variable that the shell sets."
                )
        # `$file.txt` is a file's name, `$file.name` an attribute.
        while attributes:
            attribute = getattr(value, attributes[0], _MISSING)
            if attribute is _MISSING or callable(attribute):
                break
            value = attribute
            del attributes[0]
        return ".".join([str(value), *attributes])

    def _fill_parameter(self, written: str, name: str, default: str) -> str:
        """Check `${name…}`, which is always the shell's."""
        if default or self._external_value(name) is not None:
            return written
        if self._names.value(name) is not _MISSING:
            raise UnknownNameError(
                f"the shell has no variable {name!r}. Write ${name} or {{{name}}} for Python's."
            )
        raise UnknownNameError(
            f"the environment has no variable {name!r}. Write $${{{name}}} for a variable that the shell sets."
        )

    def _external_value(self, name: str) -> str | None:
        """Return what to write for a variable that Python does not have; None if nothing has it."""
        if name in os.environ or name in _SHELL_NAMES:
            return f"${name}"
        if self._assigned_names is None:
            self._assigned_names = _find_assigned_names(self._text)
        if name in self._assigned_names:
            return f"${name}"
        return None


class _ArgumentExpansion(_Expansion):
    """Replaces names and expressions in the arguments of one magic."""

    def _fill_parameter(self, written: str, name: str, default: str) -> str:
        return written

    def _external_value(self, name: str) -> str | None:
        return os.environ.get(name)


def _find_assigned_names(command: str) -> frozenset[str]:
    """Return the names that a command itself sets."""
    names: set[str] = set()
    for match in _ASSIGNMENT.finditer(command):
        names.update(_NAME.findall(match["read"] or match["assigned"] or match["loop"] or ""))
    return frozenset(names)
