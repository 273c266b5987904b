"""Reads the calls of magic commands in parsed code: what each of them runs.

`transform` makes such calls of the lines with `%`, and cells may also contain them as they are, such as
`get_ipython().run_line_magic("time", "x = 1")`. `read_code` asks here about each call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from os.path import basename
from typing import NamedTuple

from mahtab_tui.worker.guard.known_programs import READ_SHELLS, SHELLS
from mahtab_tui.worker.magic.syntax import MAGIC_BUILTIN

MAX_NAME_CHARS = 40
"""Characters of the name of a magic command in a sentence."""

# The functions that run magic commands.

MAGIC_FUNCTIONS = frozenset((MAGIC_BUILTIN, "run_line_magic", "run_cell_magic"))
"""Functions whose texts are the name of a magic command and what follows it."""
_MAGIC_PARAMETERS = {"magic_name": 0, "line": 1, "cell": 2}
"""The parameters of these functions, with their positions."""
_SHELL_MAGIC_METHOD = "magic"
"""The method of IPython's shell whose one text is the name of a magic command and what follows it."""

# Magic commands by what their text is.

_CODE_MAGICS = {
    # In kernels of Jupyter, these two carry out statements; here they do not.
    "config": re.compile(""),
    "debug": re.compile(r"(?:[ \t]*(?:-b|--breakpoint)[ \t=]*+\S++(?:[ \t]+|$|(?=\n)))*+"),
    "prun": re.compile(r"(?:[ \t]*-(?:[rq]+|[slTD][ \t]*\S+)(?:[ \t]+|$|(?=\n)))*+"),
    "time": re.compile(r"(?:[ \t]*--no-raise-error(?:[ \t]+|$|(?=\n)))*+"),
    "timeit": re.compile(r"(?:[ \t]*-(?:[nrp][ \t]*\d+|[oqtcv]+)(?:[ \t]+|$|(?=\n)))*+"),
}
"""Magic commands whose text is code of the session, with patterns for the options before it."""
_CAPTURE_MAGIC = "capture"
"""The magic command whose body is code of the session, but not its first line."""
_PYTHON_MAGICS = frozenset(("pypy", "python", "python3"))
"""Magic commands whose text is code that another process runs."""
_SCRIPT_MAGIC = "script"
"""The magic command that runs the command in its first line, with its body as input."""
SHELL_MAGICS = frozenset(
    "cat conda cp ldir less lf lk ll ls lx mamba man micromamba mkdir more mv pip rm rmdir uv".split()
)
"""Magic commands that are commands of a shell together with the rest of their line, here or in kernels
of Jupyter."""
_COMMAND_MAGICS = frozenset(("!", "alias_command", "sx", "system"))
"""Magic commands whose text is a command of a shell."""
_VARIABLE_MAGIC = "sc"
"""The magic command that, in kernels of Jupyter, runs the command of a shell that follows a variable
and an equals sign."""
HELP_MAGICS = frozenset("pinfo pinfo2 pdoc pdef pfile psource".split())
"""Magic commands that evaluate their text."""
SEARCH_MAGIC = "psearch"
"""The magic command that evaluates its text as far as its last dot."""
TEXT_MAGICS = frozenset(
    (
        "HTML SVG aimport alias autoawait autocall automagic autoreload autosave bash bookmark"
        " cd code_wrap colors dhist dirs doctest_mode ed edit env file gui hist history html"
        " javascript js killbgscripts latex load load_ext loadpy logoff logon logstart logstate"
        " logstop lsmagic magic markdown matplotlib notebook page pastebin pdb perl popd pprint"
        " precision pushd pwd pycat pylab python2 quickref recall rehashx reload_ext rep"
        " reset reset_selective ruby run save script set_env sh store svg tb unalias unload_ext"
        " who who_ls whos writefile xdel xmode"
    ).split()
)
"""Magic commands whose text is neither code of the session nor a command of a shell."""

# The first line of a magic command that starts a program.

_PYTHON_PROGRAMS = ("ipython", "pypy", "python")
"""The beginnings of the names of programs that run Python."""
_COMMAND_OPTION = re.compile(r"(?:^|[\s'\"])-\w*c")
"""An option that may be the one of a shell or of Python that is followed by a command or by code,
perhaps among others."""
_VARIABLE = re.compile(r"[${]")
"""The beginning of what is replaced by a variable in the line of a magic command."""
_QUOTE = re.compile(r"['\"\\]")
"""What a shell leaves out of its words."""


class MagicText(NamedTuple):
    """What a magic command runs."""

    code: str = ""
    """Python code; empty if there is none."""
    command: str = ""
    """A command of a shell; empty if there is none."""
    is_separate: bool = False
    """Whether another process runs the code."""
    unread: str = ""
    """Why it is not known what runs, as a clause; empty if that is known."""


class _Magic(NamedTuple):
    """A magic command."""

    name: str
    """Without its sign; empty if the call has too few arguments."""
    text: str
    """What follows the name."""


def is_magic(call: ast.Call) -> bool:
    """Return whether a call runs a magic command."""
    if function_name(call) in MAGIC_FUNCTIONS:
        return True
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == _SHELL_MAGIC_METHOD
    return is_method and len(call.args) == 1


def read_magic(call: ast.Call) -> MagicText:
    """Return what the magic command of a call runs."""
    return _read(_parse_call(call))


def session_code(call: ast.Call) -> str:
    """Return the code in a magic command that uses the session's variables.

    Empty if the call is not one of a magic command, or if its command has no such code.
    """
    if not is_magic(call):
        return ""
    magic_text = read_magic(call)
    return "" if magic_text.is_separate else magic_text.code


def keeps_names(call: ast.Call) -> bool:
    """Return whether variables that the code in a magic command makes are there after it."""
    if not call.args:
        return True
    # `%timeit` runs its code in a function.
    name = shown_text(call.args[0]).lstrip("%").partition(" ")[0]
    return name != "timeit"


def other_magic_text(call: ast.Call) -> str:
    """Return the text of a magic command if it is neither code nor a command of a shell, as far as is
    known; otherwise an empty text."""
    magic = _parse_call(call)
    runs = _read(magic)
    if runs.code or runs.command or magic.name in HELP_MAGICS or magic.name == SEARCH_MAGIC:
        return ""
    return magic.text


def read_magic_arguments(call: ast.Call) -> Sequence[ast.expr]:
    """Return the arguments of a magic command that are plain texts, all of which are read as code, as a
    command of a shell, or by `other_magic_text`; none if it is not known what the command does."""
    magic = _parse_call(call)
    if not magic.name or _read(magic).unread:
        return ()
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [argument for argument in arguments if isinstance(argument, ast.Constant)]


def _parse_call(call: ast.Call) -> _Magic:
    """Return the magic command that a call runs."""
    keywords = sorted(
        call.keywords, key=lambda keyword: _MAGIC_PARAMETERS.get(keyword.arg or "", 0)
    )
    arguments = [*call.args, *(keyword.value for keyword in keywords)]
    texts = [shown_text(argument) for argument in arguments]
    if function_name(call) == _SHELL_MAGIC_METHOD:
        name, _space, text = "".join(texts).lstrip("% ").partition(" ")
        return _Magic(name, text)
    if len(texts) < 2:
        return _Magic("", "")
    return _Magic(texts[0].lstrip("%"), "\n".join(texts[1:]))


def _read(magic: _Magic) -> MagicText:
    """Return what a magic command runs."""
    name, text = magic
    if not name:
        return MagicText()
    if name in _CODE_MAGICS:
        # Code in the first line of a cell runs as well.
        code = _CODE_MAGICS[name].sub("", text, count=1)
        return MagicText(code=code.lstrip(" \t"))

    first_line, _line_break, body = text.partition("\n")
    if name == _CAPTURE_MAGIC:
        return MagicText(code=body)
    if name == _SCRIPT_MAGIC:
        return _read_script(first_line, body)
    if name in _PYTHON_MAGICS or name in SHELLS:
        return _read_program(name, first_line, body)
    if name in _COMMAND_MAGICS:
        return MagicText(command=f"{first_line}\n{body}".strip())
    if name in SHELL_MAGICS:
        return MagicText(command=f"{name} {first_line}")
    if name == _VARIABLE_MAGIC:
        return MagicText(command=first_line.partition("=")[2])
    if name in TEXT_MAGICS or name in HELP_MAGICS or name == SEARCH_MAGIC:
        return MagicText()
    return MagicText(unread=f"it is not known what %{name[:MAX_NAME_CHARS]} runs")


def _read_program(name: str, options: str, body: str) -> MagicText:
    """Read a magic command whose name is that of the program that gets its body, such as `%%bash`.

    Args:
        name: A Python or a shell.
        options: The rest of the first line.
        body: The other lines.
    """
    has_command = _COMMAND_OPTION.search(options)
    if name in _PYTHON_MAGICS:
        # Not every option with a `c` is followed by code, instead of which the body runs.
        command = f"{name} {options}" if has_command else ""
        return MagicText(code=body, command=command, is_separate=True)
    if has_command:
        return MagicText(command=f"{name} {options}\n{body}")
    if name not in READ_SHELLS:
        return MagicText(command=f"{name}\n{body}")
    return MagicText(command=body)


def _read_script(command_line: str, body: str) -> MagicText:
    """Read a `%%script`.

    Args:
        command_line: Its first line, which starts a program.
        body: The other lines, which the program gets as its input.
    """
    words = _QUOTE.sub("", command_line).split()
    programs = {basename(word) for word in words}
    runs_python = any(program.startswith(_PYTHON_PROGRAMS) for program in programs)

    command = ""
    if (
        _COMMAND_OPTION.search(command_line)
        or programs & (SHELLS - READ_SHELLS)
        # The program may be a shell.
        or _VARIABLE.search(command_line)
    ):
        command = command_line
        # Only if Python is what starts, and no shell is named, the body surely holds no commands.
        if not (runs_python and _names_python(words[0]) and programs.isdisjoint(SHELLS)):
            command += f"\n{body}"
    elif programs & READ_SHELLS:
        command = body

    return MagicText(code=body if runs_python else "", command=command, is_separate=runs_python)


def _names_python(word: str) -> bool:
    """Return whether a word of a command surely names a program that runs Python."""
    return basename(word).startswith(_PYTHON_PROGRAMS) and not _VARIABLE.search(word)


def function_name(call: ast.Call) -> str:
    """Return the last part of the name of a called function; empty if it has none."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def shown_text(expression: ast.expr) -> str:
    """Return the text of an expression, with an `x` for each part that is not plain text."""
    texts: list[str] = []
    # A stack, because a sum of texts is nested as deeply as it is long.
    pending = [expression]
    while pending:
        match pending.pop():
            case ast.Constant(value=str(text)):
                texts.append(text)
            case ast.Constant(value=bytes(data)):
                texts.append(data.decode("latin-1"))
            case ast.JoinedStr(values=parts):
                pending += reversed(parts)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                pending += (right, left)
            case _:
                texts.append("x")
    return "".join(texts)
