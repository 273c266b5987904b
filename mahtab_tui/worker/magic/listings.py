"""Lists the variables of a cell: `%who`, `%who_ls` and `%whos`."""

from __future__ import annotations

from typing import Any

from ..values.variables import HIDDEN_NAMES, describe_variable
from .state import MagicContext


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


def print_names(text: str, caller: MagicContext) -> None:
    """`%who`: print the names of the variables."""
    print("  ".join(list_names(text, caller)) or "There are no variables.")


def list_names(text: str, caller: MagicContext) -> list[str]:
    """`%who_ls`: return the names of the variables."""
    return sorted(variable["name"] for variable in _list_variables(text, caller))


def print_variables(text: str, caller: MagicContext) -> None:
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
