"""The tools that user and model find in every namespace. They are in builtins, so that they do not clutter the namespace."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import shell
from .claude_sessions import load_claude_sessions
from .files import create, edit, read
from .host import Host, make
from .search import arlm, rlm
from .stdlib import late_import
from .text_forms import mark_as_text
from .text_tools import grep, partition, peek

if TYPE_CHECKING:
    from .host import CallHost


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
    late_import(f"{__package__}.showing.displays").display(*values)


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
    return late_import(f"{__package__}.inspection.tables.pages").rows_of(
        table, sort, descending, filters or {}
    )


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
    editor = late_import("shlex").split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not editor:
        editor = [found for found in map(late_import("shutil").which, ("vi", "nano")) if found][:1]
    if not editor:
        raise RuntimeError("No editor found; set EDITOR")
    code = Host.call("terminal", {"argv": [*editor, str(path)], "cwd": os.getcwd()})
    if code:
        print(f"{editor[0]} ended with exit code {code}")


_FUNCTIONS = (
    read,
    edit,
    create,
    open_in_editor,
    peek,
    grep,
    partition,
    display,
    table_rows,
    ask,
    rlm,
    arlm,
    private,
    usage,
    load_claude_sessions,
)

NAMES = frozenset(function.__name__ for function in _FUNCTIONS)


def install(call_host: CallHost) -> None:
    """Put the tools into builtins. call_host: called with name and arguments, asks the host and waits."""
    Host.call = staticmethod(call_host)
    for function in _FUNCTIONS:
        setattr(builtins, function.__name__, function)
    failed: Any = late_import(f"{__package__}.logged").SearchFailed
    builtins.__dict__["SearchFailed"] = failed
    failed.__module__ = "builtins"  # so that tracebacks name it as code does
    shell.install_shell(call_host)


def add_servers(servers: list[dict[str, Any]], origins: Any) -> dict[str, Any]:
    """Put MCP servers (`kernel.base.HostServer` as dicts) into builtins, and return them by name. origins: an `attribution.CellAttribution`."""
    made: dict[str, Any] = late_import(f"{__package__}.servers").objects(servers, origins.of_caller)
    builtins.__dict__.update(made)
    return made


def add(functions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Put host functions (`kernel.base.HostFunction` as dicts) into builtins, and return them by name."""
    made = {described["name"]: make(described) for described in functions}
    builtins.__dict__.update(made)
    return made
