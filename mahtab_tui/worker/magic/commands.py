"""The ``%magic`` commands."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import re
import sys
from functools import partial
from typing import Any, Callable

from ..cells import debugger
from ..cells.compiling import compile_callable
from ..cells.tracebacks import describe_safely
from ..values.displays import Display, capture_displays, show
from ..values.pretty import FloatFormat
from ..values.rich_forms import MAX_TEXT_CHARS
from ..values.secret_names import looks_secret
from ..values.variables import HIDDEN_NAMES, describe_variable
from . import aliases, folders, programs, reloading, scripts, session_commands, timing
from .expansion import Names
from .notes import note_magic_without_effect
from .programs import split_words
from .syntax import SUMMARIES, MagicContext, Reloading, show_help_about, transform

# Pickles of earlier versions look for it here.
from .timing import TimeitResult as TimeitResult

_CAPTURE_OPTIONS = frozenset({"--no-stdout", "--no-stderr", "--no-display"})
"""Options of `%%capture`: what is not captured."""

_SECRET_WORDS = frozenset("key pass auth pat webhook dsn connection cookie".split())
"""Parts of names of secret environment variables, besides those that `looks_secret` knows."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
"""Name and password in an address."""

_NUMPY_DEFAULT_PRECISION = 8

_INSTEAD = {
    "autoawait": "await works in every cell",
    "autocall": "write the parentheses, or /f a, b in a cell of several lines",
    "automagic": "magic commands work without % in a cell of one line",
    "autosave": "the session is saved continuously",
    "bookmark": "keep a folder in a variable (here = %pwd) and return with %cd $here",
    "code_wrap": "write a function that calls the code",
    "colors": "the theme sets the colours (F10)",
    "config": "F10 has the settings of this program",
    "doctest_mode": "prompts (>>>) are removed from pasted code",
    "gui": "figures are shown automatically",
    "killbgscripts": "!kill NUMBER ends a process, and !jobs is the shell's own",
    "load": "%pycat FILE shows the file, and %run FILE runs it",
    "loadpy": "%pycat FILE shows the file, and %run FILE runs it",
    "logoff": "the session is saved continuously",
    "logon": "the session is saved continuously",
    "logstart": "the session is saved continuously, and /export writes it to a file",
    "logstate": "the session is saved continuously",
    "logstop": "the session is saved continuously",
    "notebook": "/export writes the session to a notebook",
    "page": "Enter on a long output opens it",
    "pastebin": "/export writes the session to a file",
    "pdb": "%debug after an error inspects the place where it was raised",
    "pprint": "print(value) writes a value on one line",
    "recall": "Up in the editor brings earlier inputs, Ctrl+R searches them, and %rerun 3 runs one",
    "rehashx": "!program runs any program of the PATH",
    "rep": "Up in the editor brings earlier inputs, Ctrl+R searches them, and %rerun 3 runs one",
    "sc": "name = !command keeps the lines of a command's output",
    "store": "variables are saved with the session, and `mahtab-tui --continue` brings them back",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}
"""Why magics of IPython have no effect here."""

_HELP_LEVELS = {"pinfo": 1, "pdoc": 1, "pdef": 1, "pfile": 1, "pinfo2": 2, "psource": 2}
"""Magics that show what `name?` (1) and `name??` (2) show."""


class CapturedOutput:
    """What a cell printed and displayed."""

    def __init__(self, stdout: str, stderr: str, outputs: list[Display]) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.outputs = outputs

    def __str__(self) -> str:
        return self.stdout

    def show(self) -> None:
        """Print it, and display what was displayed."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            show(output)

    __call__ = show


def _capture(text: str, caller: MagicContext) -> None:
    """`%%capture`: run the cell without showing its output, which a variable may get."""
    first_line, _, code = text.partition("\n")
    words = split_words(first_line)
    options = {word for word in words if word.startswith("-")}
    names = [word for word in words if not word.startswith("-")]
    if len(names) > 1 or not all(map(str.isidentifier, names)):
        raise ValueError("%%capture takes at most one name, as in %%capture printed")
    if unknown := sorted(options - _CAPTURE_OPTIONS):
        raise ValueError(
            f"%%capture does not take {unknown[0]}, only {', '.join(sorted(_CAPTURE_OPTIONS))}"
        )

    run = compile_callable(transform(code), "<%%capture>", *caller)
    stdout = io.StringIO()
    stderr = io.StringIO()
    outputs: list[Display] = []
    with contextlib.ExitStack() as redirections:
        if "--no-stdout" not in options:
            redirections.enter_context(contextlib.redirect_stdout(stdout))
        if "--no-stderr" not in options:
            redirections.enter_context(contextlib.redirect_stderr(stderr))
        if "--no-display" not in options:
            redirections.enter_context(capture_displays(outputs))
        try:
            run()
        finally:
            captured = CapturedOutput(stdout.getvalue(), stderr.getvalue(), outputs)
            caller.namespace.update(dict.fromkeys(names, captured))


def _show_as(mime: str, opening: str, closing: str, rest: str, caller: MagicContext) -> None:
    """`%%html` and the like: show the cell itself as a type of text.

    Args:
        mime: The type.
        opening: Written before the cell.
        closing: Written after it.
        rest: The magic's first line, which has no meaning, and the cell.
        caller: The cell's context.
    """
    cell = rest.partition("\n")[2].strip()
    text = f"{opening}{cell}{closing}\n"
    is_plain = len(text) > MAX_TEXT_CHARS
    show(Display("" if is_plain else mime, text, text))


def _format_variable(name: str, value: str) -> str:
    """Return an environment variable as ``NAME=value``, without secrets."""
    has_secret_word = not _SECRET_WORDS.isdisjoint(name.lower().split("_"))
    if name != "PWD" and (looks_secret(name) or has_secret_word):
        return f"{name}=<hidden>"
    return f"{name}={_LOGIN.sub('<hidden>@', value)}"


def _env(text: str, caller: MagicContext) -> str | None:
    """`%env`: list the environment, or return or set a variable."""
    name, separator, value = text.strip().partition("=")
    if not separator:
        name, separator, value = text.strip().partition(" ")
    if separator:
        name = name.strip()
        value = value.strip()
        os.environ[name] = value
        print(f"env: {_format_variable(name, value)}")
        return None
    if not name:
        for other_name, other_value in sorted(os.environ.items()):
            print(_format_variable(other_name, other_value))
        return None
    if name not in os.environ:
        raise KeyError(f"the environment has no {name}; to set it: %env {name}=VALUE")
    return os.environ[name]


def _list_variables(text: str, caller: MagicContext) -> list[dict[str, Any]]:
    """Describe the variables; only those of some types if `text` names types."""
    types = text.split()
    variables = [
        describe_variable(name, value)
        for name, value in list(caller.namespace.items())
        if type(name) is str and name not in HIDDEN_NAMES and name[:1] != "_"
    ]
    return [
        variable
        for variable in variables
        if variable["kind"] == "data" and (not types or variable["type"] in types)
    ]


def _who(text: str, caller: MagicContext) -> None:
    """`%who`: print the names of the variables."""
    print("  ".join(_who_ls(text, caller)) or "There are no variables.")


def _who_ls(text: str, caller: MagicContext) -> list[str]:
    """`%who_ls`: return the names of the variables."""
    return sorted(variable["name"] for variable in _list_variables(text, caller))


def _whos(text: str, caller: MagicContext) -> None:
    """`%whos`: print the variables with types and summaries."""
    variables = _list_variables(text, caller)
    if not variables:
        print("There are no variables.")
        return
    name_width = max(len(variable["name"]) for variable in variables)
    type_width = max(len(variable["type"]) for variable in variables)
    for variable in variables:
        columns = (
            variable["name"].ljust(name_width),
            variable["type"].ljust(type_width),
            variable["summary"],
        )
        print("  ".join(columns).rstrip())


def _lsmagic(text: str, caller: MagicContext) -> None:
    """`%lsmagic`: list the magic commands, or only the lines about one of them."""
    name = text.strip().lstrip("%")
    if not name:
        print("\n".join(SUMMARIES.values()))
        return
    mention = re.compile(rf"%{re.escape(name)}(?!\w)")
    lines = [line for line in SUMMARIES.values() if mention.search(line)]
    if lines:
        print("\n".join(lines))
    elif name in _INSTEAD:
        print(f"%{name} has no effect here: {_INSTEAD[name]}.")
    elif name in LINE_COMMANDS or name in CELL_COMMANDS:
        print(f"%{name} is a magic command. %lsmagic lists all.")
    else:
        print(f"There is no %{name}. %lsmagic lists all.")


def _quickref(rest: str, caller: MagicContext) -> None:
    """`%quickref`, and `?` alone: say what cells can contain besides Python."""
    print(
        "name? shows help about an object, name?? its source, pd.*csv*? names that match. !command runs a shell command.\n"
        "%lsmagic lists the magic commands, %time? explains one. F1 opens the manual."
    )


def _matplotlib(text: str, caller: MagicContext) -> None:
    """`%matplotlib`: accept the backend of notebooks silently, because figures are shown in its way
    anyway."""
    if text.strip() not in ("", "inline"):
        _explain("matplotlib", _INSTEAD["gui"], text, caller)


def _explain(name: str, reason: str, text: str, caller: MagicContext) -> None:
    """Say why a magic has no effect."""
    first_line = text.partition("\n")[0]
    note_magic_without_effect(f"%{name} {first_line}".strip(), reason)


def _config(rest: str, caller: MagicContext) -> None:
    """`%config`: accept settings of pictures and completion in notebooks silently: these work
    anyway."""
    if not rest.startswith(("InlineBackend", "Completer", "IPCompleter", "ZMQInteractiveShell")):
        _explain("config", _INSTEAD["config"], rest, caller)


def _pylab(text: str, caller: MagicContext) -> None:
    """`%pylab`: import what plots need."""
    names: dict[str, Any] = {}
    exec("from matplotlib.pylab import *\nimport numpy as np, matplotlib.pyplot as plt", names)
    for name, value in names.items():
        # pylab has functions such as `sum` and `max`, which would replace Python's.
        if name != "__builtins__" and name not in builtins.__dict__:
            caller.namespace[name] = value


def _load_ext(text: str, caller: MagicContext) -> None:
    """`%load_ext`: load the only extension that works here."""
    if text.strip() != "autoreload":
        _explain("load_ext", _INSTEAD["unload_ext"], text, caller)
    elif Reloading.reloader is None:
        Reloading.reloader = reloading.Reloader(automatic=False)


def _tb(rest: str, caller: MagicContext) -> None:
    """`%tb`: print the last traceback."""
    error = getattr(sys, "last_value", None)
    if error is None:
        print("No cell has raised an exception yet.")
    else:
        print(describe_safely(error).text, end="")


def _debug(text: str, caller: MagicContext) -> None:
    """`%debug`: inspect the place where the last exception was raised."""
    if text.strip():
        raise ValueError("%debug takes no code: write breakpoint() before what you want to debug")
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None:
        raise RuntimeError("There is nothing to debug: no cell has raised an exception yet.")
    debugger.post_mortem(traceback)


def _pycat(rest: str, caller: MagicContext) -> None:
    """`%pycat`: show a file of Python code in colours."""
    with open(os.path.expanduser(rest.strip().strip("'\"")), encoding="utf-8") as file:
        text = file.read()
    show(Display("text/markdown", f"```python\n{text.rstrip()}\n```", text))


def _precision(rest: str, caller: MagicContext) -> None:
    """`%precision`: set how floats are written, by a number of decimals, or a format such as
    ``%.2e``."""
    text = rest.strip()
    pattern = f"%.{int(text)}f" if text.isdecimal() else text
    if pattern:
        str(pattern % 1.0)  # raises an error if it is not a format of one number
    FloatFormat.pattern = pattern
    numpy = sys.modules.get("numpy")
    if numpy is not None and (text.isdecimal() or not text):
        numpy.set_printoptions(precision=int(text or _NUMPY_DEFAULT_PRECISION))
    if pattern:
        print(f"floats are written as {pattern % 3.14159265}")
    else:
        print("floats are as Python's")


def _writefile(argument_and_text: str, caller: MagicContext) -> None:
    """`%%writefile`: write the cell to a file, or add it to one."""
    first_line, _, text = argument_and_text.partition("\n")
    words = split_words(first_line)
    paths = [word for word in words if word != "-a"]
    if len(paths) != 1 or not text.strip():
        raise ValueError(
            "%%writefile needs a file, as in %%writefile notes.txt, and the text below it"
        )
    path = os.path.expanduser(paths[0])
    appends = "-a" in words
    action = "wrote"
    if os.path.exists(path):
        action = "added to" if appends else "replaced"
    with open(path, "a" if appends else "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    print(f"{action} {paths[0]}")


def _show_help(level: int, rest: str, caller: MagicContext) -> None:
    """`%pinfo` and the like: show help about a name. level: as in `_HELP_LEVELS`."""
    names = Names(caller.namespace, {})
    show_help_about(rest.strip(), level, names)


Command = Callable[[str, MagicContext], Any]
"""Takes what follows the name, and returns the value that the cell shows."""

_LINE_AND_CELL_COMMANDS: dict[str, Command] = {
    "time": timing.time_code,
    "prun": timing.profile_code,
}

_FILE_COMMANDS: dict[str, Command] = {
    **{name: partial(programs.run_command, name) for name in "cat cp mkdir mv rm rmdir".split()},
    # In columns and with marks, as in IPython; later options have precedence.
    "ls": partial(programs.run_command, "ls -CF"),
    # A pager would wait for keys.
    "less": partial(programs.run_command, "cat"),
    "ll": partial(programs.run_command, "ls -lF"),
    **{
        name: partial(programs.list_matching, pattern)
        for name, pattern in (("ldir", "/$"), ("lf", "^-"), ("lk", "^l"), ("lx", "^-..x"))
    },
    **{name: partial(programs.run_command, name) for name in ("conda", "mamba", "micromamba")},
    "man": partial(programs.run_command, "man -P cat"),
    "more": partial(programs.run_command, "cat"),
}


TAKES_CODE = frozenset(
    {*_LINE_AND_CELL_COMMANDS, *_INSTEAD, *_HELP_LEVELS, "alias", "alias_magic", "debug", "timeit"}
)
"""Magics whose arguments stay as they are, because they are code or have no effect."""
SHELL_COMMANDS = frozenset({*_FILE_COMMANDS, "alias_command", "sx", "system", "uv"})
"""Magics whose arguments are read by a shell."""

LINE_COMMANDS: dict[str, Command] = {
    **_LINE_AND_CELL_COMMANDS,
    **{name: partial(_explain, name, reason) for name, reason in _INSTEAD.items()},
    **{name: partial(_show_help, level) for name, level in _HELP_LEVELS.items()},
    **_FILE_COMMANDS,
    "aimport": reloading.import_and_reload,
    "alias": aliases.define_alias,
    "alias_command": aliases.run_alias,
    "autoreload": reloading.set_reloading,
    "cd": folders.change_folder,
    "config": _config,
    "debug": _debug,
    "dhist": folders.show_visited_folders,
    "dirs": folders.pushed_folders,
    "ed": session_commands.edit_file,
    "edit": session_commands.edit_file,
    "env": _env,
    "hist": session_commands.show_history,
    "history": session_commands.show_history,
    "load_ext": _load_ext,
    "lsmagic": _lsmagic,
    "macro": session_commands.make_macro,
    "magic": _lsmagic,
    "matplotlib": _matplotlib,
    "pip": programs.run_pip,
    "popd": folders.pop_folder,
    "precision": _precision,
    "psearch": session_commands.search_names,
    "pushd": folders.push_folder,
    "pwd": folders.working_folder,
    "pycat": _pycat,
    "pylab": _pylab,
    "quickref": _quickref,
    "reload_ext": _load_ext,
    "rerun": session_commands.rerun_inputs,
    "reset": session_commands.reset_names,
    "reset_selective": session_commands.reset_matching_names,
    "run": scripts.run_script,
    "save": session_commands.save_inputs,
    "set_env": _env,
    "sx": programs.read_command,
    "system": programs.read_command,
    "tb": _tb,
    "timeit": timing.time_line,
    "unalias": aliases.remove_alias,
    "uv": programs.run_uv,
    "who": _who,
    "who_ls": _who_ls,
    "whos": _whos,
    "xdel": session_commands.delete_name,
}
"""Magics of one line."""

CELL_COMMANDS: dict[str, Command] = {
    **_LINE_AND_CELL_COMMANDS,
    **dict.fromkeys(("!", "sx", "system"), programs.read_command),
    "debug": partial(
        _explain, "%debug", "write breakpoint() before what you want to debug, and run the cell"
    ),
    "timeit": timing.time_cell,
    **{name: partial(programs.run_program, name) for name in "perl pypy python2 ruby".split()},
    **{
        name: partial(_explain, f"%{name}", "a terminal cannot run or draw it")
        for name in ("javascript", "js", "svg", "SVG")
    },
    **dict.fromkeys(("html", "HTML"), partial(_show_as, "text/html", "", "")),
    **dict.fromkeys(("python", "python3"), partial(programs.run_program, f"'{sys.executable}' -")),
    "bash": partial(programs.run_shell_script, "bash"),
    "capture": _capture,
    "file": _writefile,
    "latex": partial(_show_as, "text/markdown", "```latex\n", "\n```"),
    "markdown": partial(_show_as, "text/markdown", "", ""),
    "script": partial(programs.run_program, ""),
    "sh": partial(programs.run_shell_script, "sh"),
    "writefile": _writefile,
}
"""Magics of a whole cell, by what follows `%%`."""

LINE_COMMANDS["alias_magic"] = partial(
    aliases.alias_magic, magic_names=frozenset({*LINE_COMMANDS, *CELL_COMMANDS})
)
