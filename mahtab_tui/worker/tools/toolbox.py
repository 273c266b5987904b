"""The tools for user and model in every namespace."""

from __future__ import annotations

import builtins
import codecs
import json
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..link.control import Host, make_host_function
from ..magic.expansion import Names, expand_command
from ..magic.syntax import LINES, SHELL
from ..rlm.search import SearchFailed, arlm, rlm
from ..stdlib import late_import, own_module
from .text_tools import grep, mark_as_text, partition, peek

if TYPE_CHECKING:
    from ..link.control import CallHost

# Programs that need the whole terminal.
_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
_BARE_ONLY = frozenset("python python3 bash sh zsh fish node irb".split())

_LINE_END = re.compile(r"\r?\n")

_MAX_TITLE_CHARS = 120


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
        return _git_needs_terminal(words[1:])
    editor = _editor()
    if program in _FULL_SCREEN or (editor and program == os.path.basename(editor[0])):
        return True
    return program in _BARE_ONLY and len(words) == 1


def _editor() -> list[str]:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    return list(late_import("shlex").split(chosen))


def _git_needs_terminal(words: list[str]) -> bool:
    command = next((word for word in words if not word.startswith("-")), "")
    if command == "commit":
        without = ("-m", "-am", "-F", "--message", "--file", "--no-edit", "-C", "--fixup")
        return not any(word.startswith(without) for word in words)
    if command in ("rebase", "add", "checkout", "restore", "reset", "stash"):
        return not {"-p", "-i", "--patch", "--interactive"}.isdisjoint(words)
    return command in ("mergetool", "difftool")


def run_command(command: str) -> None:
    """Run a shell command whose output is shown."""
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


def read_command(command: str) -> list[str]:
    """Run a shell command, and return the lines of its output."""
    subprocess = late_import("subprocess")
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    done = subprocess.run(command, shell=True, text=True, errors="replace", **pipes)
    report_exit(done.returncode)
    return str(done.stdout).splitlines()


def _run_shell_line(command: str) -> None:
    run_command(expand_command(command, Names.of_frame(sys._getframe(1))))


def _read_shell_line(command: str) -> list[str]:
    return read_command(expand_command(command, Names.of_frame(sys._getframe(1))))


def report_exit(code: int) -> None:
    """Set `_exit_code`, and tell a code that is not 0."""
    builtins.__dict__["_exit_code"] = code
    if code:
        print(f"exit code {code}" if code > 0 else f"ended by signal {-code}")


def read(path: str, start: int = 1, end: int | None = None) -> str:
    """Return the lines of a text file, each with its number.

    start, end: the first and the last line, from 1; by default all lines.
    Raises FileNotFoundError, IsADirectoryError, PermissionError.
    Example: print(read("app.py", 10, 40)).
    """
    # Split at newlines only, not at form feeds, so that line numbers match those of editors.
    lines = [line.removesuffix("\r") for line in _text(path)[0].split("\n")]
    lines = lines if lines[-1] else lines[:-1]
    last_line = len(lines) if end is None else min(end, len(lines))
    first_line = max(1, start)
    numbers = range(first_line, last_line + 1)
    return mark_as_text("\n".join(f"{number:>6}  {lines[number - 1]}" for number in numbers))


def edit(path: str, old: str, new: str) -> None:
    """Replace a text that occurs exactly once in a file, and show what changed. A module that was imported from it is reloaded.

    Raises ValueError if old is empty, does not occur, or occurs more than once; FileNotFoundError.
    Example: edit("app.py", "timeout = 3", "timeout = 30").
    """
    if not old:
        raise ValueError("old is empty: say what to replace")
    old_text, encoding = _text(path)
    end = "\n"
    if old_text.count("\r\n") * 2 > old_text.count("\n"):
        end = "\r\n"
    if old not in old_text:
        old = _LINE_END.sub(end, old)
    new = _LINE_END.sub(end, new)
    count = old_text.count(old)
    if count == 0:
        raise ValueError(f"{path}: the text to replace does not occur.{_nearest(old_text, old)}")
    if count > 1:
        raise ValueError(
            f"{path}: the text to replace occurs {count:,} times; include more of the text around it"
        )
    new_text = old_text.replace(old, new)
    _write(path, new_text, encoding)
    diff = late_import("difflib").unified_diff(
        old_text.splitlines(), new_text.splitlines(), path, path, lineterm="", n=2
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
    count = content.count("\n") + (bool(content) and not content.endswith("\n"))
    print(f"{name}: {count:,} lines written")
    _reload(name)


def _text(path: str) -> tuple[str, str]:
    """Return a file's text and its encoding, which preserves invalid bytes."""
    with open(path, "rb") as file:
        data = file.read()
    text = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= character <= "\udcff" for character in text)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif 2 * invalid > sum(character > "\x7f" for character in text):
        encoding = "cp1252"
    else:
        return text, "utf-8"
    with suppress(UnicodeDecodeError):
        return data.decode(encoding), encoding
    return text, "utf-8"


def _write(path: str, text: str, encoding: str) -> None:
    """Replace a file's text atomically, keeping its mode and links."""
    try:
        data = text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} is written in {encoding}, which has no {text[error.start]!r}; nothing was changed"
        ) from None
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode & 0o7777
    folder = os.path.dirname(target)
    handle, draft = late_import("tempfile").mkstemp(".draft", ".", folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


def _nearest(text: str, old: str) -> str:
    first_line = old.strip().split("\n")[0].strip()
    lines = [line.strip() for line in text.splitlines()[:20000]]
    close = late_import("difflib").get_close_matches(first_line, lines, n=1, cutoff=0.7)
    if close:
        return f" Line {lines.index(close[0]) + 1} is similar: {close[0]!r}"
    return ""


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


def load_claude_sessions(limit: int = 10) -> list[dict[str, Any]]:
    """Return the newest Claude Code conversations of the working directory: id, time, title, messages, path.

    limit: at most this many. Empty if there are none.
    Example: load_claude_sessions()[0]["title"].
    """
    folder = os.path.expanduser("~/.claude/projects/") + re.sub("[^A-Za-z0-9]", "-", os.getcwd())
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
        paths = [os.path.join(folder, name) for name in names]
        paths.sort(key=os.path.getmtime, reverse=True)
    except OSError:
        return []
    return [_describe_session(path) for path in paths[:limit]]


def _describe_session(path: str) -> dict[str, Any]:
    title = ""
    moment = ""
    messages = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
                kind = entry["type"]
                content = entry["message"]["content"]
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
            if kind not in ("user", "assistant"):
                continue
            messages += 1
            moment = str(entry.get("timestamp") or moment)
            if isinstance(content, list):
                dict_parts = (part for part in content if isinstance(part, dict))
                content = " ".join(str(part.get("text", "")) for part in dict_parts)
            if not title and kind == "user":
                title = " ".join(str(content).split())[:_MAX_TITLE_CHARS]
    return {
        "id": os.path.splitext(os.path.basename(path))[0],
        "time": moment,
        "title": title,
        "messages": messages,
        "path": path,
    }


def ask(prompt: str) -> str:
    """Ask the model; it may run code in this namespace. Prints its answer in the transcript and returns its last words.

    Raises RuntimeError if the model cannot be reached.
    Example: answer = ask("which rows of df look wrong?").
    """
    return mark_as_text(str(Host.call("ask", {"prompt": str(prompt)})), "markdown")


def display(*values: object, **options: Any) -> Any:
    """Show values in the transcript like the value of a cell's last line: pictures, tables and Markdown as such.

    options: as IPython's. With display_id=True it returns a handle whose update(value) replaces the display.
    Example: display(df.head(), figure).
    """
    if options:
        return own_module("magic.ipython").display(*values, **options)
    return own_module("values.displays").display(*values)


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


def open_in_editor(path: str) -> None:
    """Open a file in $VISUAL, $EDITOR, vi or nano; the screen is suspended until the editor ends.

    Raises RuntimeError if there is no terminal or no editor.
    Example: open_in_editor("app.py").
    """
    editor = _editor()
    if not editor:
        editor = [
            editor_path
            for editor_path in map(late_import("shutil").which, ("vi", "nano"))
            if editor_path
        ][:1]
    if not editor:
        raise RuntimeError("No editor found; set EDITOR")
    code = Host.call("terminal", {"argv": [*editor, str(path)], "cwd": os.getcwd()})
    if code:
        print(f"{editor[0]} ended with exit code {code}")


_FUNCTIONS = (
    *(read, edit, create, open_in_editor, peek, grep, partition, display, table_rows, ask),
    *(rlm, arlm, private, usage, load_claude_sessions),
)

NAMES = frozenset(function.__name__ for function in _FUNCTIONS)


def install(call_host: CallHost) -> None:
    """Put the tools into builtins. call_host: calls the host and waits."""
    Host.call = staticmethod(call_host)
    for function in _FUNCTIONS:
        setattr(builtins, function.__name__, function)
    SearchFailed.__module__ = "builtins"  # so that tracebacks name it as code does
    builtins.__dict__.update(
        {"SearchFailed": SearchFailed, SHELL: _run_shell_line, LINES: _read_shell_line}
    )


def add_servers(servers: list[dict[str, Any]], origins: Any) -> dict[str, Any]:
    server_objects: dict[str, Any] = own_module("tools.servers").make_objects(
        servers, origins.caller_cell
    )
    builtins.__dict__.update(server_objects)
    return server_objects


def add_functions(functions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Put host functions (`kernel.host.HostFunction`) into builtins, and return them."""
    host_functions = {described["name"]: make_host_function(described) for described in functions}
    builtins.__dict__.update(host_functions)
    return host_functions
