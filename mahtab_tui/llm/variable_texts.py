"""How a prompt describes the variables of a session: the important ones by a text each, which the
kernel has made, and the others in short lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from mahtab_tui.bus.values import Variable
from mahtab_tui.llm.prompt_sections import escape_section, one_line

USER_MARK = "the user's"
"""Marks a variable that the user made."""
CHANGED_MARK = "changed"
"""Marks a variable that a cell changed."""
UNCHANGED_MARK = "unchanged"
"""Marks a variable that a cell has assigned a value equal to that before."""
MAYBE_CHANGED_MARK = "perhaps changed"
"""Marks a variable that would take too long to compare."""
MODULES_TITLE = "Imported modules"
"""Begins the line of the modules."""
OTHERS_TITLE = "Not made by the user"
"""Begins the line of the variables that the user did not make."""
NAMED_VALUES = "\nValues in the data: {statements}."
"""The line of values, after an empty one that sets it off from the variables."""
VALUES_KEY = "(values)"
"""The key, among texts about variables, of the values that a question names."""
_MORE_KEY = "(more)"
"""The key of the line that counts the variables without a line of their own."""
_PRIVATE_KEY = "(private)"
"""The key of the rule for private variables."""
_MODULES_KEY = "(modules)"
_OTHERS_KEY = "(others)"
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

    lines = {variable.name: variable_line(variable) for variable in visible[:MAX_VARIABLES]}
    if len(visible) > MAX_VARIABLES:
        lines[_MORE_KEY] = _omission(len(visible) - MAX_VARIABLES)
    if any(variable.type == "private" for variable in visible):
        lines[_PRIVATE_KEY] = _PRIVATE
    return lines


def variable_line(variable: Variable) -> str:
    """Return ``name: type = summary``."""
    line = f"{variable.name}: {variable.type}"
    if variable.summary:
        line += f" = {variable.summary}"
    return one_line(line)


def _omission(count: int) -> str:
    return f"… and {count:,} more"


def describe_variables(
    variables: Sequence[Variable],
    descriptions: Mapping[str, str],
    user_names: Set[str] | None = None,
    marks: Mapping[str, str] = MappingProxyType({}),
    *,
    group_others: bool = True,
) -> dict[str, str]:
    """Return a text for each variable that may be described: those with a description first, then
    the others in a line each.

    Args:
        variables: All variables of the session.
        descriptions: Descriptions of variables by name.
        user_names: The names of what the user made, which are marked; None if unknown.
        marks: Further marks by name.
        group_others: Whether modules share a line, and so do variables that the user did not make.

    Returns:
        The texts by the name of the variable; those about several variables have keys in
        parentheses.
    """
    describable_names = {
        variable.name
        for variable in variables
        if not variable.underscored and variable.type != "private"
    }
    single_texts = {name: text for name, text in descriptions.items() if name in describable_names}
    undescribed = [variable for variable in variables if variable.name not in single_texts]
    groups = _VariableGroups(single=undescribed)
    if group_others and user_names is not None:
        groups = _group_variables(undescribed, user_names)
    single_texts |= _variable_lines(groups.single)

    texts: dict[str, str] = {}
    for name, text in single_texts.items():
        is_users = user_names is not None and name in user_names
        owner_mark = USER_MARK if is_users else ""
        texts[name] = add_marks(text, [owner_mark, marks.get(name, "")])
    if groups.modules:
        texts[_MODULES_KEY] = _group_line(MODULES_TITLE, groups.modules, marks)
    if groups.others:
        texts[_OTHERS_KEY] = _group_line(OTHERS_TITLE, groups.others, marks)
    return {key: escape_section(text) for key, text in texts.items()}


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
        text = variable_line(variable)
        # The type and summary of a module say nothing.
        if variable.kind == "module":
            text = one_line(variable.name)
        text = add_marks(text, [marks.get(variable.name, "")])
        remaining_chars -= len(text) + len("; ")
        if remaining_chars < 0:
            texts.append(_omission(len(variables) - len(texts)))
            break
        texts.append(text)
    return f"{title}: {'; '.join(texts)}"


def group_text_with(line: str, name: str, texts: Mapping[str, str]) -> str:
    """Return the text of a group of variables that has one of them; empty if none has it.

    Args:
        line: The line about the variable, with its marks.
        name: The name of the variable.
        texts: Texts about variables, and about groups of them.
    """
    for key, title, item in (
        (_OTHERS_KEY, OTHERS_TITLE, line),
        (_MODULES_KEY, MODULES_TITLE, name),
    ):
        items = texts.get(key, "").removeprefix(f"{title}: ")
        if f"; {item}; " in f"; {items}; ":
            return texts[key]
    return ""


def add_marks(text: str, marks: Sequence[str]) -> str:
    """Add marks to the first line of a description. Empty ones do not count."""
    joined_marks = ", ".join(mark for mark in marks if mark)
    if not joined_marks:
        return text
    first_line, newline, other_lines = text.partition("\n")
    return f"{first_line}  [{joined_marks}]{newline}{other_lines}"


def append_omitted_names(
    text: str, omitted_names: Sequence[str], deleted_names: Sequence[str]
) -> str:
    """Name the changed variables that a text does not describe, in lines after it.

    Args:
        text: The descriptions of changed variables; empty if there are none.
        omitted_names: The names of changed variables that are not described.
        deleted_names: The names of deleted variables.
    """
    lines = [text] if text else []
    if omitted_names:
        lines.append(f"{_omission(len(omitted_names))}: {_join_names(omitted_names)}")
    if deleted_names:
        lines.append(f"Deleted: {_join_names(deleted_names)}")
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
