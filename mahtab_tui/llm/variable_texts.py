"""Describes the variables of a session in a prompt.

Each important variable has a description, which the kernel has made. The others are described in a line
each, or several in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from mahtab_tui.bus.values import Variable
from mahtab_tui.llm.prompt_sections import escape_section, one_line

# A mark follows the first line about a variable, in brackets.
USER_MARK = "the user's"
"""Marks a variable that the user made."""
CHANGED_MARK = "changed"
"""Marks a variable that a cell changed."""
UNCHANGED_MARK = "unchanged"
"""Marks a variable to which a cell has assigned a value that equals the old one."""
MAYBE_CHANGED_MARK = "perhaps changed"
"""Marks a variable that would take too long to compare."""

MODULES_TITLE = "Imported modules"
"""The beginning of the line about all modules."""
OTHERS_TITLE = "Not made by the user"
"""The beginning of the line about all other variables that the user did not make."""
UNCHANGED_TITLE = "As described above"
"""The beginning of the line that names variables which the conversation describes as they are."""
NAMED_VALUES = "\nValues in the data: {statements}."
"""The line about values that a question names. An empty line before it sets it off from the variables."""

# Texts about variables have the variables' names as keys. These are the keys of other texts.
VALUES_KEY = "(values)"
"""The key of the line about values that a question names."""
UNCHANGED_KEY = "(unchanged)"
"""The key of the line that only names variables."""
_MODULES_KEY = "(modules)"
_OTHERS_KEY = "(others)"
_MORE_KEY = "(more)"
"""The key of the line that counts the variables without a line."""
_PRIVATE_KEY = "(private)"
"""The key of the rule for private variables."""

MAX_VARIABLES = 50
"""At most this many variables get a line of their own."""
_MAX_GROUP_CHARS = 600
"""Maximum characters of a line about several variables."""
_MAX_NAMES = 20
"""At most this many names of variables are listed without a description."""
_PRIVATE_RULE = "You are not told what private variables contain. Do not overwrite them; code that uses one runs only if the user allows it."


@dataclass
class _VariableGroups:
    """The variables without a description, by the lines that they get."""

    single: list[Variable] = field(default_factory=list)
    """Variables that get a line of their own."""
    modules: list[Variable] = field(default_factory=list)
    """Modules, which share a line."""
    others: list[Variable] = field(default_factory=list)
    """Other variables that the user did not make, which share a line."""


def render_variables(variables: Sequence[Variable]) -> str:
    """Return a line for each variable, as ``name: type = summary``.

    Functions and modules come last, and variables whose names begin with ``_`` are left out.
    """
    return "\n".join(_variable_lines(variables).values())


def _variable_lines(variables: Sequence[Variable]) -> dict[str, str]:
    """Return the lines of `render_variables`, by the names of the variables or other keys."""
    visible = [variable for variable in variables if not variable.underscored]
    visible.sort(key=lambda variable: variable.kind != "data")

    lines = {variable.name: variable_line(variable) for variable in visible[:MAX_VARIABLES]}
    if len(visible) > MAX_VARIABLES:
        lines[_MORE_KEY] = _count_more(len(visible) - MAX_VARIABLES)
    if any(variable.type == "private" for variable in visible):
        lines[_PRIVATE_KEY] = _PRIVATE_RULE
    return lines


def variable_line(variable: Variable) -> str:
    """Return ``name: type = summary``."""
    line = f"{variable.name}: {variable.type}"
    if variable.summary:
        line += f" = {variable.summary}"
    return one_line(line)


def _count_more(count: int) -> str:
    return f"… and {count:,} more"


def describe_variables(
    variables: Sequence[Variable],
    descriptions: Mapping[str, str],
    user_names: Set[str] | None = None,
    marks: Mapping[str, str] = MappingProxyType({}),
    *,
    group_others: bool = True,
) -> dict[str, str]:
    """Return what a prompt says about variables: first the descriptions, then lines about the others.

    Args:
        variables: The variables.
        descriptions: Descriptions of some of them, by name.
        user_names: The names of the variables that the user made, which are marked; None if that is not
            known.
        marks: Further marks, by the names of the variables.
        group_others: Whether the modules share a line, and so do other variables that the user did not
            make.

    Returns:
        The texts by the names of the variables. Texts about several variables have keys in parentheses.
    """
    describable_names = {
        variable.name
        for variable in variables
        if not variable.underscored and variable.type != "private"
    }
    texts_by_name = {name: text for name, text in descriptions.items() if name in describable_names}
    undescribed = [variable for variable in variables if variable.name not in texts_by_name]
    groups = _VariableGroups(single=undescribed)
    if group_others and user_names is not None:
        groups = _group_variables(undescribed, user_names)
    texts_by_name |= _variable_lines(groups.single)

    texts: dict[str, str] = {}
    for name, text in texts_by_name.items():
        is_users = user_names is not None and name in user_names
        owner_mark = USER_MARK if is_users else ""
        texts[name] = add_marks(text, [owner_mark, marks.get(name, "")])
    if groups.modules:
        texts[_MODULES_KEY] = _group_line(MODULES_TITLE, groups.modules, marks)
    if groups.others:
        texts[_OTHERS_KEY] = _group_line(OTHERS_TITLE, groups.others, marks)
    return {key: escape_section(text) for key, text in texts.items()}


def _group_variables(variables: Sequence[Variable], user_names: Set[str]) -> _VariableGroups:
    """Sort variables into groups.

    Args:
        variables: The variables without a description.
        user_names: The names of the variables that the user made.
    """
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
    # Each private variable has its own line, after the others.
    groups.single += private
    return groups


def _group_line(title: str, variables: Sequence[Variable], marks: Mapping[str, str]) -> str:
    """Return a line about several variables.

    Args:
        title: The beginning of the line.
        variables: The variables; of too many, the last ones are only counted.
        marks: Marks of the variables, by name.
    """
    texts: list[str] = []
    remaining_chars = _MAX_GROUP_CHARS
    for variable in variables:
        # The type and the summary of a module say nothing.
        is_module = variable.kind == "module"
        text = one_line(variable.name) if is_module else variable_line(variable)
        text = add_marks(text, [marks.get(variable.name, "")])
        remaining_chars -= len(text) + len("; ")
        if remaining_chars < 0:
            texts.append(_count_more(len(variables) - len(texts)))
            break
        texts.append(text)
    return f"{title}: {'; '.join(texts)}"


def group_text_with(line: str, name: str, texts: Mapping[str, str]) -> str:
    """Return the line about several variables that mentions one of them; empty if none does.

    Args:
        line: What the line says about the variable, with its marks, unless it is a module.
        name: The name of the variable, which is all that the line says about a module.
        texts: The texts that `describe_variables` has returned.
    """
    if _lists(texts.get(_OTHERS_KEY, ""), OTHERS_TITLE, line):
        return texts[_OTHERS_KEY]
    if _lists(texts.get(_MODULES_KEY, ""), MODULES_TITLE, name):
        return texts[_MODULES_KEY]
    return ""


def _lists(group_line: str, title: str, item: str) -> bool:
    """Return whether a line of `_group_line` has an item."""
    items = group_line.removeprefix(f"{title}: ")
    return f"; {item}; " in f"; {items}; "


def add_marks(text: str, marks: Sequence[str]) -> str:
    """Return a text with marks after its first line. Empty marks are left out."""
    joined_marks = ", ".join(mark for mark in marks if mark)
    if not joined_marks:
        return text
    first_line, newline, other_lines = text.partition("\n")
    return f"{first_line}  [{joined_marks}]{newline}{other_lines}"


def append_omitted_names(
    text: str, omitted_names: Sequence[str], deleted_names: Sequence[str]
) -> str:
    """Return a text about changed variables, and lines that name those that it does not describe.

    Args:
        text: The text; empty if it describes no variable.
        omitted_names: The names of changed variables that are not described.
        deleted_names: The names of deleted variables.
    """
    lines = [text] if text else []
    if omitted_names:
        lines.append(f"{_count_more(len(omitted_names))}: {_join_names(omitted_names)}")
    if deleted_names:
        lines.append(f"Deleted: {_join_names(deleted_names)}")
    return "\n".join(lines)


def unchanged_line(names: Sequence[str]) -> str:
    """Return the line that names variables which the conversation describes as they are."""
    return f"{UNCHANGED_TITLE}: {_join_names(names)}"


def _join_names(names: Sequence[str]) -> str:
    listed = list(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed.append("…")
    return escape_section(one_line(", ".join(listed)))


def join_variables(texts: Mapping[str, str]) -> str:
    """Join texts about variables. An empty line follows each text of several lines."""
    paragraphs = [f"{text}\n" if "\n" in text else text for text in texts.values()]
    return "\n".join(paragraphs).strip()
