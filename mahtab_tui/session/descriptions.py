"""Tells the model about variables, with each question and after each cell.

What the model still has in its conversation is not repeated, because descriptions of tables are long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from mahtab_tui.bus.records import AssistantReplOut, Namespace, Private, Record, RecordHandler, Undo
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.llm.prompt_sections import escape_section
from mahtab_tui.llm.variable_texts import (
    CHANGED_MARK,
    MAYBE_CHANGED_MARK,
    NAMED_VALUES,
    UNCHANGED_KEY,
    UNCHANGED_MARK,
    USER_MARK,
    VALUES_KEY,
    add_marks,
    append_omitted_names,
    describe_variables,
    group_text_with,
    join_variables,
    unchanged_line,
    variable_line,
)
from mahtab_tui.session.passing_names import find_passing_names
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.variable_choice import (
    TABLE_TYPES,
    choose_changed,
    choose_for_question,
    fits_line,
    is_passing,
    is_printed,
    names_in_question,
)
from mahtab_tui.worker.guard.mentioned_names import mentioned_names

MAX_DESCRIPTION_CHARS = 4_500
"""Maximum characters of all descriptions together, about 1,500 tokens."""

_MAX_DESCRIBED = 12
"""A question gets details of at most this many variables."""
_MAX_TABLE_LINE_CHARS = 240
"""Maximum characters of a line with a table's columns."""
_MAX_TABLE_LINES_CHARS = 1_500
"""Maximum characters of all these lines together."""
_MAX_RESULT_CHARS = 4_000
"""A longer output is not compared with the question, because it shows more than one result."""
_MIN_CUT_CHARS = 200
"""A description that does not fit is left out if fewer characters than this remain for it; otherwise
it is cut."""
_USER_MARK_CHARS = len(f"  [{USER_MARK}]")
"""Characters that the mark of the user adds to a description."""
_MARK_BY_CHANGE = {
    "rebound": CHANGED_MARK,
    "changed": CHANGED_MARK,
    "perhaps": MAYBE_CHANGED_MARK,
}
_CHANGE_MARKS = frozenset({CHANGED_MARK, MAYBE_CHANGED_MARK, UNCHANGED_MARK, ""})


class _SentDescription(NamedTuple):
    """A description of a variable that the model got."""

    text: str
    """The whole description, as the kernel made it."""
    is_users: bool
    """Whether it was marked as that of a variable of the user."""
    message: str
    """The description as it was sent: escaped, with marks, and perhaps cut."""


class _SentLine(NamedTuple):
    """A line about a variable that the model got, alone or in a text about several variables."""

    line: str
    """The line with its marks, except for the mark of a change."""
    message: str
    """A text that was sent with the line. While the conversation has it, the model has the line."""


class VariableDescriptions(RecordHandler):
    """Describes variables for the model, without repeating what it has been told.

    Private variables, and variables that cells have used together with private ones, get no details.
    """

    kinds = (Namespace, Undo, Private)

    def __init__(
        self,
        kernel: Kernel,
        private: PrivateNames,
        is_users: Callable[[str], bool] = lambda name: True,
        stale_marks: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """
        Args:
            kernel: The kernel, which describes its variables.
            private: Knows which variables are private.
            is_users: Gets a variable's name, and returns whether the user made the variable.
            stale_marks: Returns marks for the variables that stale cells made, by their names.
        """
        super().__init__()
        self._kernel = kernel
        self._private = private
        self._is_users = is_users
        self._stale_marks = stale_marks
        self._sent_descriptions: dict[str, _SentDescription] = {}
        """The newest description of each variable that the model got, by the variable's name."""
        self._sent_lines: dict[str, _SentLine] = {}
        """The newest line about each variable that the model got, by the variable's name."""

    def fold(self, record: Record) -> None:
        """Forget what was sent if it is no longer true, or if the model may take it for outdated."""
        is_new_kernel = isinstance(record, Namespace) and record.fresh
        if is_new_kernel or isinstance(record, Undo | Private):
            self._sent_descriptions.clear()
            self._sent_lines.clear()

    # With a question

    def for_question(
        self, question: str, recent_codes: Sequence[str], conversation: str = ""
    ) -> dict[str, str]:
        """Return what to tell the model about variables with a question.

        Waits for the kernel.

        Args:
            question: What the user asks.
            recent_codes: The code of the last cells, the newest last.
            conversation: What the model gets before the question.

        Returns:
            Texts about single variables, about groups of them, and about the values that the
            question names, by keys for `join_variables`. If some variables are described and
            others are not, a line names those that the conversation describes.

        Raises:
            KernelError: The kernel could not be asked.
        """
        variables = self._private.variables()
        users_names = frozenset(
            variable.name for variable in variables if self._is_users(variable.name)
        )
        chosen_names = choose_for_question(variables, question, recent_codes, users_names)
        chosen_names = chosen_names[:_MAX_DESCRIBED]
        descriptions = self._describe(variables, chosen_names, MAX_DESCRIPTION_CHARS // 2)
        new_descriptions = {
            name: description
            for name, description in descriptions.items()
            if not self._has_description(name, description, name in users_names, conversation)
        }
        fitting_descriptions = _fit(new_descriptions)
        already_described = descriptions.keys() - new_descriptions.keys()

        # Every other variable gets a line, unless the model still has one that says the same.
        table_lines = self._table_lines(variables, users_names - fitting_descriptions.keys())
        stale_marks = self._stale_marks_of_data(variables)
        lines = self._lines(variables, fitting_descriptions, table_lines, users_names, stale_marks)
        known_names = {
            name
            for name, line in lines.items()
            if self._has_line(name, line, name in already_described, conversation)
        }
        untold_variables = _order_for_question(
            [variable for variable in variables if variable.name not in known_names], question
        )
        untold_tables = {
            name: line for name, line in table_lines.items() if name not in known_names
        }
        texts = describe_variables(
            untold_variables, fitting_descriptions | untold_tables, users_names, stale_marks
        )

        # What was cut counts as told completely.
        whole_descriptions = {name: new_descriptions[name] for name in fitting_descriptions}
        self._remember_descriptions(whole_descriptions, texts, users_names)
        self._remember_lines(lines, texts)
        if texts:
            texts |= _name_unchanged(variables, known_names, question)
        return texts | self._named_values(variables, chosen_names, question)

    def _stale_marks_of_data(self, variables: Sequence[Variable]) -> dict[str, str]:
        """Return the marks of stale variables, except for functions and modules."""
        data_names = frozenset(_data_names(variables))
        return {name: mark for name, mark in self._stale_marks().items() if name in data_names}

    def _table_lines(self, variables: Sequence[Variable], names: Set[str]) -> dict[str, str]:
        """Return a line with the columns of each table, by the table's name, the newest first.

        Args:
            variables: All variables of the session, the newest last.
            names: The names of the variables that may get such a line.
        """
        tables = [
            variable.name
            for variable in reversed(variables)
            if variable.name in names and variable.type in TABLE_TYPES
        ]
        lines: dict[str, str] = {}
        remaining_chars = _MAX_TABLE_LINES_CHARS
        for name, line in self._describe(variables, tables, _MAX_TABLE_LINE_CHARS).items():
            remaining_chars -= len(line) + _USER_MARK_CHARS
            if remaining_chars < 0:
                break
            lines[name] = line
        return lines

    def _named_values(
        self, variables: Sequence[Variable], names: Sequence[str], question: str
    ) -> dict[str, str]:
        """Return a text about the values in tables that a question names.

        Args:
            variables: All variables of the session.
            names: The names of the variables to look at; only tables that have nothing to do with
                private variables are.
            question: What the user asks.

        Returns:
            The text by its key; empty if the question names no value.
        """
        types = {variable.name: variable.type for variable in variables}
        tables = [name for name in names if types[name] in TABLE_TYPES]
        public_tables = self._private.unrelated(tables, _data_names(variables))
        if not public_tables:
            return {}
        try:
            statements = self._kernel.named_values(public_tables, question)
        except KernelError:  # perhaps a kernel that an older version left running
            return {}
        if not statements:
            return {}
        text = NAMED_VALUES.format(statements="; ".join(statements.values()))
        return {VALUES_KEY: escape_section(text)}

    # After a cell

    def for_changes(
        self, changes: Sequence[Change], output: str, code: str = "", cell: int | None = None
    ) -> str:
        """Return what to tell the model about the variables that a cell has changed.

        Variables that the cell's code or output shows are left out. Waits for the kernel.

        Args:
            changes: The changes of the cell's variables.
            output: What the cell printed. If it printed nothing, the variables are described.
            code: The cell's code.
            cell: The cell's number, by which its message is recognised.

        Raises:
            KernelError: The kernel could not be asked.
        """
        changes = [change for change in changes if not change.name.startswith("_")]
        deleted_names = [change.name for change in changes if change.change == "deleted"]
        for name in deleted_names:
            self._sent_lines.pop(name, None)

        passing_names = find_passing_names(code)
        # While the model gets the message of the cell, it knows what the cell shows.
        cell_message = f'<{AssistantReplOut.tag} cell="{cell}"'
        variables: list[Variable] = []
        marks: dict[str, str] = {}
        for change in changes:
            if change.variable is None or change.variable.kind == "module":
                continue
            variable = self._private.redact_variable(change.variable)
            is_evident = is_passing(variable, passing_names) or is_printed(variable, output)
            if is_evident and not self._is_users(change.name):
                self._sent_lines[change.name] = _SentLine(variable_line(variable), cell_message)
            else:
                variables.append(variable)
                marks[change.name] = _change_mark(change, variable)

        # What the user made is named first, because it matters most.
        users_names = frozenset(filter(self._is_users, marks))
        variables.sort(
            key=lambda variable: (variable.name not in users_names, variable.kind != "data")
        )
        chosen = choose_changed(variables, users_names, code)
        omitted_names = [variable.name for variable in variables if variable not in chosen]

        descriptions: dict[str, str] = {}
        if not output.strip():
            names = [
                variable.name
                for variable in chosen
                if variable.kind == "data" and not fits_line(variable)
            ]
            descriptions = self._describe(chosen, names, MAX_DESCRIPTION_CHARS // 3)
        texts = describe_variables(chosen, descriptions, users_names, marks, group_others=False)
        self._remember_descriptions(descriptions, texts, users_names)
        self._remember_lines(self._lines(chosen, descriptions, {}, users_names, {}), texts)
        return append_omitted_names(join_variables(texts), omitted_names, deleted_names)

    def doubts_about(self, code: str, output: str = "", question: str = "") -> Sequence[str]:
        """Return a sentence for each thing that is probably wrong with the result of code.

        Tells nothing about private variables. Waits for the kernel.

        Args:
            code: The code.
            output: What it printed.
            question: The question that the result must fit; empty if it need not fit one.

        Returns:
            The sentences; empty if the kernel does not answer.
        """
        if len(output) > _MAX_RESULT_CHARS:
            question = ""
        names = mentioned_names(code)
        try:
            variables = self._private.variables()
            tables = [
                variable.name
                for variable in variables
                if variable.type in TABLE_TYPES and (question or variable.name in names)
            ]
            public_tables = self._private.unrelated(tables, _data_names(variables))
            return self._kernel.result_doubts(
                public_tables, code, question, output if question else ""
            )
        except KernelError:  # perhaps a kernel that an older version left running
            return ()

    # Both

    def _describe(
        self, variables: Sequence[Variable], names: Sequence[str], max_chars: int
    ) -> dict[str, str]:
        """Return the kernel's descriptions of variables that have nothing to do with private ones.

        Args:
            variables: All variables of the session.
            names: The names of the variables to describe.
            max_chars: Maximum characters of each description.

        Returns:
            The descriptions by name, in the order of `names`; empty if the kernel does not answer.
        """
        public_names = self._private.unrelated(names, _data_names(variables))
        if not public_names:
            return {}
        try:
            descriptions = self._kernel.describe(public_names, max_chars)
        except KernelError:
            return {}
        return {name: descriptions[name] for name in public_names if name in descriptions}

    def _lines(
        self,
        variables: Sequence[Variable],
        descriptions: Mapping[str, str],
        table_lines: Mapping[str, str],
        users_names: Set[str],
        marks: Mapping[str, str],
    ) -> dict[str, str]:
        """Return the line, with its marks, of each variable that has no description."""
        lines: dict[str, str] = {}
        for variable in variables:
            name = variable.name
            if name not in descriptions:
                owner_mark = USER_MARK if name in users_names else ""
                line = table_lines.get(name) or variable_line(variable)
                lines[name] = add_marks(line, [owner_mark, marks.get(name, "")])
        return lines

    def _has_description(
        self, name: str, description: str, is_users: bool, conversation: str
    ) -> bool:
        """Return whether the newest description of a variable that was sent is the same, and the
        conversation still has it."""
        sent = self._sent_descriptions.get(name)
        if sent is None or sent.text != description or sent.is_users != is_users:
            return False
        return sent.message in conversation

    def _has_line(self, name: str, line: str, is_described: bool, conversation: str) -> bool:
        """Return whether the conversation says the same about a variable as a line.

        Args:
            name: The name of the variable.
            line: The line with its marks.
            is_described: Whether the conversation has the description of the variable.
            conversation: What the model gets before the question.
        """
        sent = self._sent_lines.get(name)
        if sent is not None:
            return sent.line == line and sent.message in conversation
        if not is_described:
            return False
        # The marks may have changed since the description was sent.
        description_line = self._sent_descriptions[name].message.partition("\n")[0]
        return _lasting_marks(description_line) == _lasting_marks(line)

    def _remember_descriptions(
        self, descriptions: Mapping[str, str], texts: Mapping[str, str], users_names: Set[str]
    ) -> None:
        """Note which descriptions the model gets, which replace lines about these variables.

        Args:
            descriptions: The whole descriptions, by the names of the variables.
            texts: What the model gets, by the names of the variables.
            users_names: The names of the variables that are marked as the user's.
        """
        for name, description in descriptions.items():
            if name in texts:
                self._sent_descriptions[name] = _SentDescription(
                    description, name in users_names, texts[name]
                )
                self._sent_lines.pop(name, None)

    def _remember_lines(self, lines: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Note which lines the model gets.

        Args:
            lines: The line about each variable, with its marks, by the variable's name.
            texts: What the model gets, by the names of variables or of groups of them.
        """
        for name, line in lines.items():
            escaped_line = escape_section(line)
            message = texts.get(name) or group_text_with(escaped_line, name, texts)
            if message:
                self._sent_lines[name] = _SentLine(line, message)


def _data_names(variables: Sequence[Variable]) -> list[str]:
    """Return the names of the variables that are not functions, classes or modules."""
    return [variable.name for variable in variables if variable.kind == "data"]


def _order_for_question(variables: Sequence[Variable], question: str) -> list[Variable]:
    """Return variables in the order of their importance: those that a question names before the
    others, and the newest before older ones."""
    named = set(names_in_question([variable.name for variable in variables], question))
    newest_first = list(reversed(variables))
    newest_first.sort(key=lambda variable: variable.name not in named)
    return newest_first


def _name_unchanged(
    variables: Sequence[Variable], known_names: Set[str], question: str
) -> dict[str, str]:
    """Return a line that names the data of which the conversation says how it is.

    Without it, a model that reads the new descriptions as a list of all variables would take a new
    table for the one that the question means.

    Args:
        variables: All variables of the session, the newest last.
        known_names: The names of those that the conversation describes as they are.
        question: What the user asks.

    Returns:
        The line by its key; empty if it would name nothing.
    """
    known_data = [
        variable
        for variable in variables
        if variable.name in known_names and variable.kind == "data" and not variable.underscored
    ]
    names = [variable.name for variable in _order_for_question(known_data, question)]
    return {UNCHANGED_KEY: unchanged_line(names)} if names else {}


def _change_mark(change: Change, variable: Variable) -> str:
    """Return the mark that says how a variable has changed.

    Args:
        change: The change.
        variable: The variable after the change, as the model may see it.
    """
    # Whether a private value is the same as before says something about it.
    if change.is_equal and variable.type != "private":
        return UNCHANGED_MARK
    return _MARK_BY_CHANGE.get(change.change, "")


def _lasting_marks(line: str) -> str:
    """Return the marks at the end of a line, without marks of a change, which say nothing about the
    value."""
    _, separator, marks = line.removesuffix("]").rpartition("  [")
    if not separator:
        return ""
    return ", ".join(mark for mark in marks.split(", ") if mark not in _CHANGE_MARKS)


def _fit(descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return the first descriptions that fit into the maximum together, with room for their marks.

    The last one may be cut after a line.
    """
    remaining_chars = MAX_DESCRIPTION_CHARS
    fitting: dict[str, str] = {}
    for name, description in descriptions.items():
        available_chars = remaining_chars - _USER_MARK_CHARS
        text = description
        if len(text) > available_chars:
            if available_chars < _MIN_CUT_CHARS:
                break
            text = _cut_lines(description, available_chars)
        if text:
            fitting[name] = text
            remaining_chars -= len(text) + _USER_MARK_CHARS + len("\n\n")
    return fitting


def _cut_lines(text: str, max_chars: int) -> str:
    """Return the first lines of a text that fit; empty if not even one does."""
    ellipsis = "\n..."
    lines, newline, _ = text[: max_chars - len(ellipsis)].rpartition("\n")
    return f"{lines}{ellipsis}" if newline else ""
