"""The tools for user and model in every namespace."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..link.host import Host
from ..link.host_functions import make_host_function
from ..rlm.search import SearchFailed, arlm, rlm
from ..stdlib import own_module
from .claude_sessions import load_claude_sessions
from .files import create, edit, read
from .shell_commands import open_in_editor
from .text_tools import grep, mark_as_text, partition, peek

if TYPE_CHECKING:
    from ..link.host import CallHost


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
    return own_module("inspection.table_pages").rows_of(table, sort, descending, filters or {})


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
    builtins.__dict__["SearchFailed"] = SearchFailed


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
