"""How a prompt describes the variables of a session: the important ones by a text each, which the
kernel has made, and the others in short lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from mahtab_tui.bus.values import Variable
from mahtab_tui.llm.prompt_sections import escape_section, one_line

USERS = "the user's"
CHANGED = "changed"
MAYBE_CHANGED = "perhaps changed"
"""Marks of a variable."""
MODULES = "Imported modules"
OTHERS = "Not made by the user"
"""Titles of the lines that several variables share."""
VALUES_KEY = "(values)"
"""The key, among descriptions of variables, of the values that a question names."""
NAMED_VALUES = "\nValues in the data: {statements}."
"""After an empty line, which sets it off from the variables."""
MAX_VARIABLES = 50
"""Variables that get a line of their own."""

_PRIVATE = "You are not told what private variables contain. Do not overwrite them; code that uses one runs only if the user allows it."
_MAX_GROUP_CHARS = 600
"""Characters of a line that several variables share."""
_MAX_NAMES = 20
"""Names of changed variables that are only named."""


@dataclass
class _VariableGroups:
    """Variables by how they are described."""

    single: list[Variable] = field(default_factory=list)
    """They get a line of their own."""
    modules: list[Variable] = field(default_factory=list)
    """They share a line."""
    others: list[Variable] = field(default_factory=list)
    """What the user did not make; they share a line."""


def render_variables(variables: Sequence[Variable]) -> str:
    """Format one line for each variable, ``name: type = summary``; functions and modules last,
    names that begin with ``_`` omitted."""
    return "\n".join(_variable_lines(variables).values())


def _variable_lines(variables: Sequence[Variable]) -> dict[str, str]:
    """Return the lines by name; lines about others have names that no variable has."""
    visible = [variable for variable in variables if not variable.underscored]
    visible.sort(key=lambda variable: variable.kind != "data")

    lines = {variable.name: _variable_line(variable) for variable in visible[:MAX_VARIABLES]}
    if len(visible) > MAX_VARIABLES:
        lines["(more)"] = f"… and {len(visible) - MAX_VARIABLES} more"
    if any(variable.type == "private" for variable in visible):
        lines["(private)"] = _PRIVATE
    return lines


def _variable_line(variable: Variable) -> str:
    line = f"{variable.name}: {variable.type}"
    if variable.summary:
        line += f" = {variable.summary}"
    return one_line(line)


def describe_variables(
    variables: Sequence[Variable],
    described: Mapping[str, str],
    user_names: Set[str] | None = None,
    marks: Mapping[str, str] = MappingProxyType({}),
    *,
    are_grouped: bool = True,
) -> dict[str, str]:
    """Return a text for each variable that may be described: those in `described` first, then the
    others in a line each.

    Args:
        variables: All variables of the session.
        described: Descriptions of variables by name.
        user_names: The names of what the user made, which are marked; None if unknown.
        marks: Further marks by name.
        are_grouped: Whether modules share a line, and so do variables that the user did not make.

    Returns:
        The texts by the name of the variable; those about several variables have keys in
        parentheses.
    """
    describable = {
        variable.name
        for variable in variables
        if not variable.underscored and variable.type != "private"
    }
    texts: dict[str, str] = {}
    for name, text in described.items():
        if name in describable:
            texts[name] = escape_section(add_mark(text, marks.get(name, "")))

    undescribed = [variable for variable in variables if variable.name not in texts]
    groups = _VariableGroups(single=undescribed)
    if are_grouped and user_names is not None:
        groups = _group_variables(undescribed, user_names)

    for name, line in _variable_lines(groups.single).items():
        owner = USERS if user_names is not None and name in user_names else ""
        mark = ", ".join(filter(None, [owner, marks.get(name, "")]))
        texts[name] = escape_section(add_mark(line, mark))
    if groups.modules:
        texts["(modules)"] = escape_section(_group_line(MODULES, groups.modules, marks))
    if groups.others:
        texts["(others)"] = escape_section(_group_line(OTHERS, groups.others, marks))
    return texts


def _group_variables(variables: Sequence[Variable], user_names: Set[str]) -> _VariableGroups:
    """Sort variables into groups. user_names: the names of what the user made."""
    groups = _VariableGroups()
    private: list[Variable] = []
    for variable in variables:
        if variable.name in user_names and variable.kind != "module":
            groups.single.append(variable)
        elif variable.underscored:
            continue
        elif variable.type == "private":
            private.append(variable)
        elif variable.kind == "module":
            groups.modules.append(variable)
        else:
            groups.others.append(variable)
    groups.single += private
    return groups


def _group_line(title: str, variables: Sequence[Variable], marks: Mapping[str, str]) -> str:
    """Name variables in one line. marks: their marks by name."""
    texts: list[str] = []
    remaining_chars = _MAX_GROUP_CHARS
    for variable in variables:
        # The type and summary of a module say nothing.
        text = one_line(variable.name) if variable.kind == "module" else _variable_line(variable)
        text = add_mark(text, marks.get(variable.name, ""))
        remaining_chars -= len(text) + len("; ")
        if remaining_chars < 0:
            texts.append(f"… and {len(variables) - len(texts):,} more")
            break
        texts.append(text)
    return f"{title}: {'; '.join(texts)}"


def add_mark(text: str, mark: str) -> str:
    """Add a mark to the first line of a description, next to the mark that it may have."""
    if not mark:
        return text
    first_line, newline, other_lines = text.partition("\n")
    if first_line.endswith(f"[{USERS}]"):
        return f"{first_line[:-1]}, {mark}]{newline}{other_lines}"
    return f"{first_line}  [{mark}]{newline}{other_lines}"


def list_changes(text: str, omitted: Sequence[str], deleted: Sequence[str]) -> str:
    """Add to the descriptions of changed variables those that are only named.

    Args:
        text: The descriptions; empty if there are none.
        omitted: The names of changed variables that are not described.
        deleted: The names of deleted variables.
    """
    lines = [text] if text else []
    if omitted:
        lines.append(f"… and {len(omitted):,} more: {_join_names(omitted)}")
    if deleted:
        lines.append(f"Deleted: {_join_names(deleted)}")
    return "\n".join(lines)


def _join_names(names: Sequence[str]) -> str:
    listed = list(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed.append("…")
    return escape_section(one_line(", ".join(listed)))


def join_variables(texts: Mapping[str, str]) -> str:
    """Join descriptions of variables. Those of several lines are set off by an empty one."""
    paragraphs = [f"{text}\n" if "\n" in text else text for text in texts.values()]
    return "\n".join(paragraphs).strip()
