"""The tools that both parties find in every namespace. They live in builtins, so that they never clutter or collide."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import shell
from .claude_sessions import load_claude_sessions
from .files import create, edit, read
from .host import Host
from .search import rlm
from .stdlib import late_import
from .text_tools import grep, partition, peek

if TYPE_CHECKING:
    from .host import CallHost


class Tool(NamedTuple):
    """A tool as a prompt lists it."""

    name: str
    signature: str
    summary: str


def ask(prompt: str) -> str:
    """Ask the model; it may run code in this namespace. Prints its answer in the transcript and returns its last words.

    Raises RuntimeError where the model cannot be reached.
    Example: answer = ask("which rows of df look wrong?").
    """
    return str(Host.call("ask", {"prompt": str(prompt)}))


def display(*values: object) -> None:
    """Show values in the transcript as the last one of a cell is: pictures, tables and Markdown as such.

    Example: display(df.head(), figure).
    """
    late_import(f"{__package__}.showing.displays").display(*values)


def skill(name: str, args: str = "", file: str = "") -> str:
    """Return the instructions of a skill by its name, or a file that they name.

    args: what the skill is to be used on. file: its path inside the skill's folder.
    Raises RuntimeError where there is no such skill, or no such file of it.
    Example: print(skill("explore-data")).
    """
    return str(Host.call("skill", {"name": str(name), "args": str(args), "file": str(file)}))


def search_skills(query: str, limit: int = 5) -> str:
    """Return the skills that answer a query best, a line each: name and description.

    Example: print(search_skills("slow query")).
    """
    return str(Host.call("search_skills", {"query": str(query), "limit": int(limit)}))


def search_code(
    pattern: str, file_pattern: str = "*", context_lines: int = 2, ignore_case: bool = False, limit: int = 100, encoding: str = ""
) -> str:
    r"""Return the lines of the project's files that match a regular expression, with lines around them.

    file_pattern: of names ("*.py") or paths ("src/**/*.cbl"). encoding: of files that do not tell theirs, as in "cp037".
    Held inside the project's folder; hidden and binary files and what .gitignore names are passed over. Raises RuntimeError with a sentence.
    Example: print(search_code(r"def load_\w+", "*.py")).
    """
    given = {"pattern": str(pattern), "file_pattern": str(file_pattern), "encoding": str(encoding)}
    return str(Host.call("search_code", {**given, "context_lines": int(context_lines), "ignore_case": bool(ignore_case), "limit": int(limit)}))


def read_file(path: str, start: int = 1, end: int | None = None) -> str:
    """Return lines of a file of the project, each with its number; held inside the project's folder.

    start, end: the first and the last line, from 1. Raises RuntimeError with a sentence.
    Example: print(read_file("src/app.py", 10, 40)).
    """
    return str(Host.call("read_file", {"path": str(path), "start": int(start), "end": None if end is None else int(end)}))


def usage() -> str:
    """Return what the models have used and what it cost: the session, each question, each search.

    Example: print(usage()).
    """
    return str(Host.call("usage", {}))


def open_in_editor(path: str) -> None:
    """Open a file in $VISUAL, $EDITOR, vi or nano; the screen is suspended until the editor ends.

    Raises RuntimeError where there is no terminal or no editor.
    Example: open_in_editor("app.py").
    """
    editor = late_import("shlex").split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not editor:
        editor = [found for found in map(late_import("shutil").which, ("vi", "nano")) if found][:1]
    if not editor:
        raise RuntimeError("There is no editor: set EDITOR")
    code = Host.call("terminal", {"argv": [*editor, str(path)], "cwd": os.getcwd()})
    if code:
        print(f"{editor[0]} ended with exit code {code}")


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    read,
    edit,
    create,
    open_in_editor,
    peek,
    grep,
    partition,
    display,
    ask,
    rlm,
    skill,
    search_skills,
    search_code,
    read_file,
    usage,
    load_claude_sessions,
)

if TYPE_CHECKING:
    TOOLS: tuple[Tool, ...]
    """The one catalogue: from the functions' own signatures and docstrings."""


def __getattr__(name: str) -> Any:
    """`TOOLS`, made when a prompt wants it: a kernel that lists nothing does not load `inspect`."""
    if name != "TOOLS":
        raise AttributeError(name)
    signature = late_import("inspect").signature
    return tuple(
        Tool(function.__name__, str(signature(function)).replace("'", ""), (function.__doc__ or "").split("\n")[0]) for function in _FUNCTIONS
    )


def install(call_host: CallHost) -> None:
    """Put the tools into builtins. `call_host(name, args)` asks the host and waits."""
    Host.call = staticmethod(call_host)
    for function in _FUNCTIONS:
        setattr(builtins, function.__name__, function)
    shell.install(call_host)


def shadowed(names: Iterable[str]) -> list[str]:
    """Those of the names that hide a tool where the person binds them."""
    tools = {function.__name__ for function in _FUNCTIONS}
    return [name for name in names if name in tools]
