"""Magic commands that run other programs: scripts, pip, uv, and commands of the shell.

The functions get the text after the command, and whoever calls it. What a program prints goes to
the screen as it comes."""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from typing import NamedTuple

from ..stdlib import importing_from, late_import
from ..tools import shell_commands
from ..tools.shell_commands import report_exit
from .state import MagicContext

PIP = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip, but not a `pip.py` of the working directory."""


def split_words(text: str) -> list[str]:
    """Split a line into words as a shell does."""
    words: list[str] = late_import("shlex").split(text)
    return words


class _ScriptArguments(NamedTuple):
    """The first line of `%%bash` and similar magics."""

    words: list[str]
    """The arguments of the program."""
    stdout_name: str
    """The variable that gets the standard output; empty to show the output."""
    stderr_name: str
    """The variable that gets the standard error output; empty to show it."""
    raises_error: bool
    """Whether an exit code that is not 0 is an error, as in IPython."""
    magic: str
    """The name of the magic, for error messages."""


def _parse_script_arguments(magic: str, line: str) -> _ScriptArguments:
    """Separate the program's arguments from the magic's own options.

    Args:
        magic: For error messages.
    """
    words: list[str] = []
    names = {"--out": "", "--err": ""}
    raises_error = True
    remaining_words = iter(split_words(line))
    for word in remaining_words:
        option, sign, value = word.partition("=")
        if option in names:
            names[option] = value if sign else next(remaining_words, "")
            if not names[option].isidentifier():
                raise ValueError(
                    f"{option} needs the name of a variable, as in {magic} {option} text"
                )
        elif word in ("--bg", "--proc"):
            raise ValueError(
                f"{magic} does not take {word}: `!command &` runs it in the background"
            )
        elif word == "--no-raise-error":
            raises_error = False
        elif word != "--raise-error":
            words.append(word)
    return _ScriptArguments(words, names["--out"], names["--err"], raises_error, magic)


def run_program(program: str, text: str, caller: MagicContext) -> None:
    """`%%script PROGRAM` and the like: run a program whose input is the cell."""
    first_line, _newline, code = text.partition("\n")
    if sys.executable in program:
        name = "python"
    else:
        name = program or "script"
    script = _parse_script_arguments(f"%%{name}", first_line)
    words = [*split_words(program), *script.words]
    if not words:
        raise ValueError("%%script needs a program, as in %%script perl")
    _run_script(words, code, script, caller)


def run_shell_script(name: str, text: str, caller: MagicContext) -> None:
    """`%%bash`, `%%sh`: run the cell as a script of the shell."""
    first_line, _newline, code = text.partition("\n")
    shell = "bash" if late_import("shutil").which("bash") else "sh"
    script = _parse_script_arguments(f"%%{name}", first_line)
    options = script.words
    arguments: list[str] = []
    if "-s" in options:
        arguments = options[options.index("-s") + 1 :]
        options = options[: options.index("-s")]
    # The script is not the shell's input: programs that it runs would read the rest of it.
    _run_script([shell, *options, "-c", code, shell, *arguments], "", script, caller)


def _run_script(
    words: list[str], stdin: str, script: _ScriptArguments, caller: MagicContext
) -> None:
    """Run a program. Its output goes to variables if the magic names some, else to the screen.

    Args:
        words: The program and its arguments.
        stdin: What the program reads.
        script: The magic's options.
        caller: Has the namespace with the variables.
    """
    subprocess = late_import("subprocess")
    try:
        process = subprocess.run(
            words,
            input=stdin.encode(),
            stdout=subprocess.PIPE if script.stdout_name else None,
            stderr=subprocess.PIPE if script.stderr_name else None,
            check=False,
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no program {words[0]}.") from None
    if script.stdout_name:
        caller.namespace[script.stdout_name] = process.stdout.decode("utf-8", "replace")
    if script.stderr_name:
        caller.namespace[script.stderr_name] = process.stderr.decode("utf-8", "replace")
    if process.returncode and script.raises_error:
        builtins.__dict__["_exit_code"] = process.returncode
        raise subprocess.CalledProcessError(process.returncode, script.magic)
    report_exit(process.returncode)


def run_pip(text: str, caller: MagicContext) -> None:
    """`%pip`: run the pip of this interpreter, or uv if it has none."""
    subprocess = late_import("subprocess")
    words = split_words(text)
    command = [sys.executable, "-c", PIP, *words]
    folder = os.getcwd()
    with importing_from([entry for entry in sys.path if entry not in ("", ".", folder)]):
        has_pip = late_import("importlib.util").find_spec("pip") is not None
    if not has_pip:
        uv = late_import("shutil").which("uv")
        if uv is None:
            raise RuntimeError(
                f"The environment of {sys.executable} has no pip. `!{sys.executable} -m ensurepip` may install it."
            )
        command = [uv, "pip", *words[:1], "--python", sys.executable, *words[1:]]
    # A child process's direct output does not belong to the cell in the caller's own process.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
    importlib.invalidate_caches()
    report_exit(child.returncode)


def run_uv(text: str, caller: MagicContext) -> None:
    """Run uv; its pip installs into the environment of this interpreter."""
    words = text.split(None, 2)
    arguments = text
    if words[:1] == ["pip"] and len(words) > 1 and "--python" not in text:
        python = late_import("shlex").quote(sys.executable)
        arguments = f"pip {words[1]} --python {python} {' '.join(words[2:])}"
    shell_commands.run_command(f"uv {arguments}")


def run_command(command: str, text: str, caller: MagicContext) -> None:
    """Run a command of the shell on the rest of the line."""
    shell_commands.run_command(f"{command} {text}")


def list_matching(pattern: str, text: str, caller: MagicContext) -> None:
    """List the files whose lines in a long list match a pattern of grep."""
    # grep reports that nothing matches as a failure.
    shell_commands.run_command(f"ls -lF {text} | grep '{pattern}' || true")


def read_command(text: str, caller: MagicContext) -> list[str]:
    """`%sx`: run a command of the shell, and return the lines of its output."""
    return shell_commands.read_command(text.strip())
