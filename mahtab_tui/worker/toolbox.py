"""The tools for user and model in every namespace."""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .control import Host, make_host_function
from .magics import LINES, SHELL
from .search import SearchFailed, arlm, rlm
from .stdlib import late_import, own_module
from .text_tools import grep, mark_as_text, partition, peek

if TYPE_CHECKING:
    from .control import CallHost

# Programs that need the whole terminal.
_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
# Not ${name} and {{name}}, which are shell syntax.
_FIELD = re.compile(r"(?<![${])\{([^{},]+)\}(?!\})")
_BARE_ONLY = frozenset("python python3 bash sh zsh fish node irb".split())


def needs_terminal(command: str) -> bool:
    try:
        words = late_import("shlex").split(command)
    except ValueError:
        return False
    while words and ("=" in words[0] or words[0] in ("sudo", "env", "exec")):
        words.pop(0)
    if not words:
        return False
    program = os.path.basename(words[0])
    if program == "git":
        given = ("-m", "-am", "-F", "--message", "--file", "--no-edit", "-C", "--fixup")
        return words[1:2] == ["commit"] and not any(word.startswith(given) for word in words)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if program in _FULL_SCREEN or program == os.path.basename(editor.partition(" ")[0]):
        return True
    return program in _BARE_ONLY and len(words) == 1


def _run_shell(command: str, names: dict[str, Any] | None = None) -> None:
    command = _fill_expressions(command, names)
    if needs_terminal(command):
        shell = os.environ.get("SHELL") or "/bin/sh"
        if os.path.basename(shell) in ("sh", "dash", "ash"):
            # Ctrl+C would kill these shells before the program. Child processes do not inherit
            # traps.
            command = f"trap : INT QUIT; {command}"
        code = Host.call("terminal", {"argv": [shell, "-c", command], "cwd": os.getcwd()})
    else:
        code = late_import("subprocess").call(command, shell=True)
    report_exit(code)


def _fill_expressions(command: str, names: dict[str, Any] | None) -> str:
    """Replace each ``{expression}`` by its value, unless it is not valid (awk's ``{print $1}``)."""
    frame = sys._getframe(2)
    spaces = (frame.f_globals, frame.f_locals) if names is None else (names, names)

    def value(found: re.Match[str]) -> str:
        try:
            return str(eval(found[1].strip(), *spaces))
        except Exception:  # raised by the user's expression, or it is not one
            return found[0]

    return _FIELD.sub(value, command)


def _lines(command: str, names: dict[str, Any] | None = None) -> list[str]:
    command = _fill_expressions(command, names)
    subprocess = late_import("subprocess")
    done = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    report_exit(done.returncode)
    return str(done.stdout).splitlines()


def report_exit(code: int) -> None:
    if code:
        print(f"exit code {code}" if code > 0 else f"ended by signal {-code}")


_LINE_END = re.compile(r"\r?\n")


def read(path: str, start: int = 1, end: int | None = None) -> str:
    """Return the lines of a text file, each with its number.

    start, end: the first and the last line, from 1; by default all lines.
    Raises FileNotFoundError, IsADirectoryError, PermissionError.
    Example: print(read("app.py", 10, 40)).
    """
    # Split at newlines only, not at form feeds, so that line numbers match those of editors.
    lines = [line.removesuffix("\r") for line in _text(path).split("\n")]
    lines = lines if lines[-1] else lines[:-1]
    last = len(lines) if end is None else min(end, len(lines))
    first = max(1, start)
    return mark_as_text(
        "\n".join(f"{number:>6}  {lines[number - 1]}" for number in range(first, last + 1))
    )


def edit(path: str, old: str, new: str) -> None:
    """Replace a text that occurs exactly once in a file, and show what changed. A module that was imported from it is reloaded.

    Raises ValueError if old is empty, does not occur, or occurs more than once; FileNotFoundError.
    Example: edit("app.py", "timeout = 3", "timeout = 30").
    """
    if not old:
        raise ValueError("old is empty: say what to replace")
    before = _text(path)
    end = "\r\n" if before.count("\r\n") * 2 > before.count("\n") else "\n"
    if old not in before:
        old = _LINE_END.sub(end, old)
    new = _LINE_END.sub(end, new)
    count = before.count(old)
    if count == 0:
        raise ValueError(f"{path}: the text to replace does not occur.{_nearest(before, old)}")
    if count > 1:
        raise ValueError(
            f"{path}: the text to replace occurs {count} times; include more of the text around it"
        )
    after = before.replace(old, new)
    _write(path, after)
    diff = late_import("difflib").unified_diff(
        before.splitlines(), after.splitlines(), path, path, lineterm="", n=2
    )
    print("\n".join(diff))
    _reload(path)


def create(name: str, content: str) -> None:
    """Write a new file and make its folders; an existing file is not changed.

    Raises FileExistsError.
    Example: create("notes/plan.md", "# Plan\\n").
    """
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    try:
        with open(name, "x", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(content)
    except FileExistsError:
        raise FileExistsError(
            f"{name} already exists; change it with edit(path, old, new)"
        ) from None
    print(
        f"{name}: {content.count(chr(10)) + (not content.endswith(chr(10)) and bool(content))} lines written"
    )
    _reload(name)


def _text(path: str) -> str:
    """Return a file's text, which preserves invalid bytes."""
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "surrogateescape")


def _write(path: str, text: str) -> None:
    """Replace a file's text atomically, keeping its mode and links."""
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode & 0o7777
    handle, draft = late_import("tempfile").mkstemp(
        dir=os.path.dirname(target), prefix=".", suffix=".draft"
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


def _nearest(text: str, old: str) -> str:
    wanted = old.strip().split("\n")[0].strip()
    lines = text.splitlines()
    close = late_import("difflib").get_close_matches(
        wanted, [line.strip() for line in lines[:20000]], n=1, cutoff=0.7
    )
    if not close:
        return ""
    number = next(number for number, line in enumerate(lines, 1) if line.strip() == close[0])
    return f" Line {number} is similar: {close[0]!r}"


def _reload(path: str) -> None:
    real = os.path.realpath(path)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and os.path.realpath(file) == real:
            importing = late_import("importlib")
            importing.invalidate_caches()
            try:
                importing.reload(module)
            except Exception as error:  # raised by the user's module
                print(f"{name} could not be reloaded: {type(error).__name__}: {error}")
            else:
                print(f"{name} was reloaded")


def ask(prompt: str) -> str:
    """Ask the model; it may run code in this namespace. Prints its answer in the transcript and returns its last words.

    Raises RuntimeError if the model cannot be reached.
    Example: answer = ask("which rows of df look wrong?").
    """
    return mark_as_text(str(Host.call("ask", {"prompt": str(prompt)})), "markdown")


def display(*values: object) -> None:
    """Show values in the transcript like the value of a cell's last line: pictures, tables and Markdown as such.

    Example: display(df.head(), figure).
    """
    own_module("displays").display(*values)


def table_rows(
    table: Any,
    sort: str | int | None = None,
    descending: bool = False,
    filters: dict[str | int, str] | None = None,
) -> Any:
    """Return the matching rows of a table, sorted, as the inspector shows them: an object of the same kind.

    table: a DataFrame, a Series, an Arrow table, an array, or a list of dicts. sort: a column, by its name or its number from 0.
    filters: conditions by column, as in the inspector: "> 5", "= berlin", "missing", "present", or a text that values contain.
    Raises ValueError with a sentence.
    Example: cheap = table_rows(orders, sort="price", filters={"city": "= berlin", "price": "< 5"}).
    """
    return own_module("inspection.tables").rows_of(table, sort, descending, filters or {})


def private(name: str, on: bool = True) -> None:
    """Mark a variable, by its name, as private: no model is told what is in it. private(name, False) takes the mark away.

    Raises RuntimeError if code of the model or an agent takes a mark away.
    Example: private("salaries").
    """
    if not isinstance(name, str):
        raise TypeError('private() takes the name of a variable as a string, as in private("df")')
    Host.call("private", {"name": str(name), "on": bool(on)})


def usage() -> str:
    """Return what the models have used and cost: for the session, each question, each search.

    Example: usage().
    """
    return mark_as_text(str(Host.call("usage", {})))


_FUNCTIONS = (
    *(read, edit, create, peek, grep, partition, display, table_rows, ask),
    *(rlm, arlm, private, usage),
)

NAMES = frozenset(function.__name__ for function in _FUNCTIONS)


def install(call_host: CallHost) -> None:
    """Put the tools into builtins. call_host: calls the host and waits."""
    Host.call = staticmethod(call_host)
    for function in _FUNCTIONS:
        setattr(builtins, function.__name__, function)
    SearchFailed.__module__ = "builtins"  # so that tracebacks name it as code does
    builtins.__dict__.update({"SearchFailed": SearchFailed, SHELL: _run_shell, LINES: _lines})


def add_servers(servers: list[dict[str, Any]], origins: Any) -> dict[str, Any]:
    made: dict[str, Any] = own_module("servers").make_objects(servers, origins.caller_cell)
    builtins.__dict__.update(made)
    return made


def add_functions(functions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Put host functions (`kernel.base.HostFunction`) into builtins, and return them."""
    made = {described["name"]: make_host_function(described) for described in functions}
    builtins.__dict__.update(made)
    return made
