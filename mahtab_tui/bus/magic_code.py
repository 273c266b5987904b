"""Reads code as the kernel does: Python whose magic commands, and texts that it runs, contain further
code or commands of a shell.

`read_code` yields all of that code, parsed. Whoever asks what code uses or changes begins here.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from os.path import basename
from typing import NamedTuple

from mahtab_tui.worker.guard.simple_commands import READ_SHELLS, SHELLS
from mahtab_tui.worker.magic.syntax import (
    HELP_BUILTIN,
    MAGIC_BUILTIN,
    SHELL_BUILTIN,
    SHELL_OUTPUT_BUILTIN,
    complete_command,
    parse_python,
    transform,
)

MAX_CODE_CHARS = 100_000
"""Longer code is not parsed."""
MAX_NESTED_MAGICS = 5
"""Code in more magic commands is not parsed."""
MAX_NAME_CHARS = 40
"""Characters of the name of a magic command in a sentence."""
SHELL_MAGICS = frozenset(
    "cat conda cp ldir less lf lk ll ls lx mamba man micromamba mkdir more mv pip rm rmdir uv".split()
)
"""Magic commands that are commands of a shell together with the rest of their line, here or in kernels
of Jupyter."""
_MAGIC_FUNCTIONS = frozenset((MAGIC_BUILTIN, "run_line_magic", "run_cell_magic"))
"""Functions whose texts are the name of a magic command and what follows it."""
_MAGIC_PARAMETERS = {"magic_name": 0, "line": 1, "cell": 2}
"""The parameters of these functions, with their positions."""
_SHELL_MAGIC_METHOD = "magic"
"""The method of IPython's shell whose one text is the name of a magic command and what follows it."""
CODE_FUNCTIONS = frozenset("compile eval ev ex exec repeat run_cell run_code timeit Timer".split())
"""Functions whose first text is code."""
_COMMAND_FUNCTIONS = frozenset((SHELL_BUILTIN, SHELL_OUTPUT_BUILTIN, "system", "getoutput"))
"""Functions whose text is a command of a shell."""
_EXPANDING_FUNCTIONS = _COMMAND_FUNCTIONS | _MAGIC_FUNCTIONS
"""Functions that evaluate what stands between braces in their texts."""
_BRACES = re.compile(r"\{([^{}]+)\}")
_CONVERSION = re.compile(r"![rsa]\Z")
"""The end of an expression between braces, as in `{name!r}`."""
_HELP_MAGICS = frozenset("pinfo pinfo2 pdoc pdef pfile psource".split())
"""Magic commands that evaluate their text."""
_SEARCH_MAGIC = "psearch"
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
_COMMAND_MAGICS = frozenset(("!", "alias_command", "sx", "system"))
"""Magic commands whose text is a command of a shell."""
_CAPTURE_MAGIC = "sc"
"""The magic command that, in kernels of Jupyter, runs the command of a shell that follows a variable
and an equals sign."""
_CODE_MAGICS = {
    # In kernels of Jupyter, these two carry out statements; here they do not.
    "config": re.compile(""),
    "debug": re.compile(r"(?:[ \t]*(?:-b|--breakpoint)[ \t=]*+\S++(?:[ \t]+|$|(?=\n)))*+"),
    "prun": re.compile(r"(?:[ \t]*-(?:[rq]+|[slTD][ \t]*\S+)(?:[ \t]+|$|(?=\n)))*+"),
    "time": re.compile(r"(?:[ \t]*--no-raise-error(?:[ \t]+|$|(?=\n)))*+"),
    "timeit": re.compile(r"(?:[ \t]*-(?:[nrp][ \t]*\d+|[oqtcv]+)(?:[ \t]+|$|(?=\n)))*+"),
}
"""Magic commands whose text is code of the session, with patterns for the options before it."""
_SCRIPT_MAGIC = "script"
"""The magic command that runs the command in its first line, with its body as input."""
_PYTHON_MAGICS = frozenset(("pypy", "python", "python3"))
"""Magic commands whose text is code that another process runs."""
_PYTHON_PROGRAMS = ("ipython", "pypy", "python")
"""The beginnings of the names of programs that run Python."""
_COMMAND_OPTION = re.compile(r"(?:^|[\s'\"])-\w*c")
"""An option that may be the one of a shell or of Python that is followed by a command or by code,
perhaps among others."""
_VARIABLE = re.compile(r"[${]")
"""The beginning of what is replaced by a variable in the line of a magic command."""
_QUOTE = re.compile(r"['\"\\]")
"""What a shell leaves out of its words."""


class CodePart(NamedTuple):
    """A whole cell, or the code in a magic command."""

    text: str
    tree: ast.Module | None
    """None if it cannot be parsed."""
    depth: int
    """How many magic commands and texts that are run contain it."""
    commands: tuple[str, ...] = ()
    """The shell commands of its magic commands."""
    is_separate: bool = False
    """Whether another process runs it, which does not have the session's variables."""
    unread: str = ""
    """Why it is not known what runs, as a clause; empty if that is known."""


class _MagicText(NamedTuple):
    """What a magic command runs."""

    code: str = ""
    """Python code; empty if there is none."""
    command: str = ""
    """A command of a shell; empty if there is none."""
    is_separate: bool = False
    """Whether another process runs the code."""
    unread: str = ""
    """Why it is not known what runs, as a clause; empty if that is known."""


def read_code(code: str) -> Iterator[CodePart]:
    """Yield code, and the code in its magic commands and in texts that it runs (`exec`).

    `!` lines are calls of `syntax.SHELL_BUILTIN` and `syntax.SHELL_OUTPUT_BUILTIN` in the trees.
    """
    pending = deque([CodePart(code, None, 0)])
    while pending:
        part = pending.popleft()
        unread = _unread_reason(part)
        tree = None if unread else _parse(part)
        if tree is None:
            yield part._replace(unread=unread or "it is not Python that can be read here")
            continue

        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        magics = [_read_magic(call) for call in calls if is_magic(call)]
        pending += _inner_parts(part, calls, magics)
        for expression in _expressions(calls):
            expression_part = CodePart(expression, parse_python(expression), part.depth + 1)
            # What is not Python stays as it is, for a shell.
            if expression_part.tree is not None:
                yield expression_part
        commands = tuple(magic.command for magic in magics if magic.command)
        unread = next((magic.unread for magic in magics if magic.unread), "")
        yield part._replace(tree=tree, commands=commands, unread=unread)


def _inner_parts(
    part: CodePart, calls: Iterable[ast.Call], magics: Iterable[_MagicText]
) -> Iterator[CodePart]:
    """Yield the code in texts that code runs, and in its magic commands, neither of them parsed."""
    inner_depth = part.depth + 1
    for call in calls:
        if function_name(call) in CODE_FUNCTIONS and call.args:
            code = shown_text(call.args[0])
            yield CodePart(code, None, inner_depth, is_separate=part.is_separate)
    for magic in magics:
        if magic.code:
            is_separate = part.is_separate or magic.is_separate
            yield CodePart(magic.code, None, inner_depth, is_separate=is_separate)


def _unread_reason(part: CodePart) -> str:
    """Return why code is not parsed, as a clause; empty if it is."""
    if len(part.text) > MAX_CODE_CHARS:
        return f"it has more than {MAX_CODE_CHARS:,} characters"
    if part.depth > MAX_NESTED_MAGICS:
        return f"it has code in more than {MAX_NESTED_MAGICS} magic commands"
    return ""


def _parse(part: CodePart) -> ast.Module | None:
    """Parse code with magic commands; None if this is impossible."""
    tree = parse_python(transform(part.text))
    if tree is None and not part.depth:
        # A cell of one line may be a magic command without its sign.
        tree = parse_python(transform(complete_command(part.text, {})))
    return tree


def _expressions(calls: Iterable[ast.Call]) -> Iterator[str]:
    """Yield the expressions that calls evaluate, as far as their texts show it: those between braces,
    and what help is asked about."""
    for call in calls:
        name = function_name(call)
        if name == HELP_BUILTIN:
            yield from (shown_text(argument) for argument in call.args[:1])
        if name not in _EXPANDING_FUNCTIONS:
            continue
        texts = [shown_text(argument) for argument in call.args]
        if name in _COMMAND_FUNCTIONS:
            expanded = "\n".join(texts)
        else:
            # Of a magic command, only the first line is expanded.
            magic = "".join(texts[:1]).lstrip("%")
            expanded = "".join(texts[1:2]).partition("\n")[0]
            if magic in _HELP_MAGICS:
                yield expanded.strip()
            if magic == _SEARCH_MAGIC:
                yield expanded.strip().rpartition(".")[0]
        for expression in _BRACES.findall(expanded):
            yield _CONVERSION.sub("", expression.strip())


def is_magic(call: ast.Call) -> bool:
    """Return whether a call runs a magic command."""
    if function_name(call) in _MAGIC_FUNCTIONS:
        return True
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == _SHELL_MAGIC_METHOD
    return is_method and len(call.args) == 1


def session_code(call: ast.Call) -> str:
    """Return the code in a magic command that uses the session's variables.

    Empty if the call is no such command.
    """
    if not is_magic(call):
        return ""
    magic = _read_magic(call)
    return "" if magic.is_separate else magic.code


def keeps_names(call: ast.Call) -> bool:
    """Return whether variables that the code in a magic command makes are there after it."""
    if not call.args:
        return True
    # `%timeit` runs its code in a function.
    name = shown_text(call.args[0]).lstrip("%").partition(" ")[0]
    return name != "timeit"


def _read_magic(call: ast.Call) -> _MagicText:
    """Read a call of a magic command: of what `transform` makes of a line, or of `get_ipython()`."""
    name, text = _magic_words(call)
    if not name:
        return _MagicText()
    if name in _CODE_MAGICS:
        # Code in the first line of a cell runs as well.
        code = _CODE_MAGICS[name].sub("", text, count=1)
        return _MagicText(code=code.lstrip(" \t"))
    first_line, _line_break, body = text.partition("\n")
    if name == "capture":
        return _MagicText(code=body)
    if name == _SCRIPT_MAGIC or name in _PYTHON_MAGICS or name in SHELLS:
        return _read_program(name, first_line, body)
    if name in _COMMAND_MAGICS:
        return _MagicText(command=f"{first_line}\n{body}".strip())
    if name in SHELL_MAGICS:
        return _MagicText(command=f"{name} {first_line}")
    if name == _CAPTURE_MAGIC:
        return _MagicText(command=first_line.partition("=")[2])
    if name in TEXT_MAGICS or name in _HELP_MAGICS or name == _SEARCH_MAGIC:
        return _MagicText()
    return _MagicText(unread=f"it is not known what %{name[:MAX_NAME_CHARS]} runs")


def _read_program(name: str, first_line: str, body: str) -> _MagicText:
    """Read a magic command that gives its body to a program, as `%%python`, `%%bash` and
    `%%script perl` do."""
    is_script = name == _SCRIPT_MAGIC
    # The first line of %%script is a command; other commands are themselves the program's name.
    words = _QUOTE.sub("", first_line).split() if is_script else [name]
    program_names = set(map(basename, words))
    runs_python = name in _PYTHON_MAGICS or (
        is_script and any(program.startswith(_PYTHON_PROGRAMS) for program in program_names)
    )
    # Only if Python is what starts, and no shell is named, the body surely holds no commands.
    is_only_python = runs_python and _names_python(words[0]) and program_names.isdisjoint(SHELLS)
    command_and_input = first_line if is_script else f"{name} {first_line}"
    if not is_only_python:
        command_and_input += f"\n{body}"

    command = ""
    if _COMMAND_OPTION.search(first_line):
        command = command_and_input
    elif not program_names.isdisjoint(SHELLS - READ_SHELLS):
        command = f"{first_line if is_script else name}\n{body}"
    elif is_script and _VARIABLE.search(first_line):
        # The program may be a shell.
        command = command_and_input
    elif not program_names.isdisjoint(READ_SHELLS):
        command = body
    if runs_python:
        # Not every option with a `c` is followed by code, instead of which the body runs.
        return _MagicText(code=body, command=command, is_separate=True)
    return _MagicText(command=command)


def _names_python(word: str) -> bool:
    """Return whether a word of a command surely names a program that runs Python."""
    return basename(word).startswith(_PYTHON_PROGRAMS) and not _VARIABLE.search(word)


def _magic_words(call: ast.Call) -> tuple[str, str]:
    """Return the name of the magic command that a call runs, without its sign, and the text that follows
    it. The name is empty if the call has too few arguments."""
    keywords = sorted(
        call.keywords, key=lambda keyword: _MAGIC_PARAMETERS.get(keyword.arg or "", 0)
    )
    arguments = [*call.args, *(keyword.value for keyword in keywords)]
    texts = [shown_text(argument) for argument in arguments]
    if function_name(call) == _SHELL_MAGIC_METHOD:
        name, _space, text = "".join(texts).lstrip("% ").partition(" ")
        return name, text
    if len(texts) < 2:
        return "", ""
    return texts[0].lstrip("%"), "\n".join(texts[1:])


def other_magic_text(call: ast.Call) -> str:
    """Return the text of a magic command if it is neither code nor a command of a shell, as far as is
    known; otherwise an empty text."""
    magic = _read_magic(call)
    name, text = _magic_words(call)
    is_help = name in _HELP_MAGICS or name == _SEARCH_MAGIC
    if magic.code or magic.command or is_help:
        return ""
    return text


def read_magic_arguments(call: ast.Call) -> Sequence[ast.expr]:
    """Return the arguments of a magic command that are plain texts, all of which are read as code, as a
    command of a shell, or by `other_magic_text`; none if it is not known what the command does."""
    name, _text = _magic_words(call)
    if not name or _read_magic(call).unread:
        return ()
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [argument for argument in arguments if isinstance(argument, ast.Constant)]


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
