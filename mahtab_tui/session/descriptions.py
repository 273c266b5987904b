"""Chooses what the model is told about variables: about those that a question names, that the user
made, or that a block of code changed."""

from __future__ import annotations

import re
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
    UNCHANGED_MARK,
    USER_MARK,
    VALUES_KEY,
    add_marks,
    append_omitted_names,
    describe_variables,
    group_text_with,
    join_variables,
    variable_line,
)
from mahtab_tui.session.passing_names import PassingNames, find_passing_names
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.worker.guard.private_use import mentioned_names

MAX_DESCRIPTION_CHARS = 4_500
"""Maximum characters of all descriptions, about 1,500 tokens."""

_MAX_DESCRIBED = 12
"""A question gets details of at most this many variables."""
_MAX_CHANGED = 8
"""Changed variables that are described; more are only named."""
_MAX_LINE_CHARS = 240
"""Maximum characters of a line with a table's columns."""
_MAX_LINES_CHARS = 1_500
"""Maximum characters of all these lines."""
_MIN_CUT_CHARS = 200
"""Below this many remaining characters, no description is cut to fit: too little of it would be
left."""
_MARK_CHARS = len(f"  [{USER_MARK}]")
"""Characters that the mark of the user adds to a description."""
_MARKS = {"rebound": CHANGED_MARK, "changed": CHANGED_MARK, "perhaps": MAYBE_CHANGED_MARK}
_CHANGE_MARKS = frozenset({CHANGED_MARK, MAYBE_CHANGED_MARK, UNCHANGED_MARK, ""})
_LAST_LINES = 3
"""Lines at the end of code that say what matters of its results."""
_MIN_PRINTED_CHARS = 3
"""A shorter value may stand in an output by chance."""
_MAX_SEARCHED_CHARS = 20_000
"""Characters of an output in which values are looked for."""
_PRINTED_TYPES = frozenset({"int", "float", "int64", "float64"})
"""Types whose values are not listed if the output has them."""
_WORD = re.compile(r"\w+")
_ONE_LINE_TYPES = frozenset({"int", "float", "complex", "bool", "NoneType", "private"})
"""Types that a single line describes completely."""
_TABLE_TYPES = frozenset({"DataFrame", "LazyFrame", "Series", "Table"})
_PREFIXES = frozenset({"df"})
"""Parts of names that nobody says, as in ``df_cars``."""


class _SentDescription(NamedTuple):
    """A description that the model got."""

    text: str
    """The whole description of a variable."""
    is_users: bool
    """Whether it was marked as the user's."""
    message: str
    """The description as it was sent: escaped, marked, and perhaps cut."""


class _SentLine(NamedTuple):
    """A line about a variable that the model got, by itself or among others."""

    line: str
    """The variable with its marks; without that of a change."""
    message: str
    """What was sent with it."""


class VariableDescriptions(RecordHandler):
    """Describes variables for the model, without repeating what it has been told. Private variables,
    and those used with them, get no details."""

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
            kernel: Describes the variables.
            private: Knows which variables are private.
            is_users: Tells by its name whether the user made a variable.
            stale_marks: Returns the marks of variables that come from stale cells, by their names.
        """
        super().__init__()
        self._kernel = kernel
        self._private = private
        self._is_users = is_users
        self._stale_marks = stale_marks
        self._sent: dict[str, _SentDescription] = {}
        """The newest description of each variable that the model got."""
        self._sent_lines: dict[str, _SentLine] = {}
        """The newest line about each variable that the model got."""

    def fold(self, record: Record) -> None:
        """Forget what is no longer true, or what the model may take for outdated."""
        is_new_kernel = isinstance(record, Namespace) and record.fresh
        if is_new_kernel or isinstance(record, Undo | Private):
            self._sent.clear()
            self._sent_lines.clear()

    def for_question(
        self, question: str, recent_codes: Sequence[str], conversation: str = ""
    ) -> dict[str, str]:
        """Return a text for each variable or group of them, and for the values that the question
        names.

        Args:
            question: What the user asks.
            recent_codes: The code of the last cells, the newest last.
            conversation: What the model gets before the question.

        Raises:
            KernelError: The kernel could not be asked.
        """
        variables = self._private.variables()
        users_names = frozenset(v.name for v in variables if self._is_users(v.name))
        names = choose_described(variables, question, recent_codes, users_names)[:_MAX_DESCRIBED]
        descriptions = self._describe(variables, names, MAX_DESCRIPTION_CHARS // 2)
        unsent = {
            name: text
            for name, text in descriptions.items()
            if not self._is_in_conversation(name, text, name in users_names, conversation)
        }
        fitting = _fit(unsent)
        table_lines = self._table_lines(variables, users_names - fitting.keys())
        # What is described in full above needs no line.
        described_names = descriptions.keys() - unsent.keys()
        data_names = {variable.name for variable in variables if variable.kind == "data"}
        marks = {name: mark for name, mark in self._stale_marks().items() if name in data_names}
        lines = self._lines(variables, fitting, table_lines, users_names, marks)
        known_names = {
            name
            for name, line in lines.items()
            if self._is_line_in_conversation(name, line, name in described_names, conversation)
        }
        unknown_variables = [v for v in variables if v.name not in known_names]
        unknown_variables.reverse()  # of many, the newest matter most
        asked_names = set(_in_question([v.name for v in unknown_variables], question))
        unknown_variables.sort(key=lambda v: v.name not in asked_names)
        new_lines = {name: line for name, line in table_lines.items() if name not in known_names}
        new_texts = fitting | new_lines
        texts = describe_variables(unknown_variables, new_texts, users_names, marks)
        for name in fitting:
            self._sent[name] = _SentDescription(unsent[name], name in users_names, texts[name])
            self._sent_lines.pop(name, None)
        self._remember_lines(lines, texts)
        return texts | self._named_values(variables, names, question)

    def _lines(
        self,
        variables: Sequence[Variable],
        descriptions: Mapping[str, str],
        table_lines: Mapping[str, str],
        users_names: Set[str],
        marks: Mapping[str, str],
    ) -> dict[str, str]:
        """Return the line about each variable that has no description."""
        lines: dict[str, str] = {}
        for variable in variables:
            name = variable.name
            if name not in descriptions:
                owner_mark = USER_MARK if name in users_names else ""
                line = table_lines.get(name) or variable_line(variable)
                lines[name] = add_marks(line, [owner_mark, marks.get(name, "")])
        return lines

    def _is_line_in_conversation(
        self, name: str, line: str, is_described: bool, conversation: str
    ) -> bool:
        """Return whether the model still gets an earlier message that says the same of a variable, and
        none that says otherwise.

        Args:
            is_described: Whether such a message has the whole description.
        """
        sent = self._sent_lines.get(name)
        if sent is not None:
            return sent.line == line and sent.message in conversation
        if not is_described:
            return False
        # The marks may have changed since.
        described_line = self._sent[name].message.partition("\n")[0]
        return _marks_of(described_line) == _marks_of(line)

    def _remember_lines(self, lines: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Note which lines the model gets.

        Args:
            lines: A line for each variable, with its marks.
            texts: What the model gets, by the names of variables or of groups of them.
        """
        for name, line in lines.items():
            escaped_line = escape_section(line)
            message = texts.get(name) or group_text_with(escaped_line, name, texts)
            if message:
                self._sent_lines[name] = _SentLine(line, message)

    def _named_values(
        self, variables: Sequence[Variable], names: Sequence[str], question: str
    ) -> dict[str, str]:
        """Return a text about the values that a question names, without those of private variables;
        nothing if it names none."""
        types = {variable.name: variable.type for variable in variables}
        data_names = [variable.name for variable in variables if variable.kind == "data"]
        tables = [name for name in names if types[name] in _TABLE_TYPES]
        tables = self._private.unrelated(tables, data_names)
        if not tables:
            return {}
        try:
            statements = self._kernel.named_values(tables, question)
        except KernelError:  # perhaps a kernel that an older version left running
            return {}
        if not statements:
            return {}
        text = NAMED_VALUES.format(statements="; ".join(statements.values()))
        return {VALUES_KEY: escape_section(text)}

    def doubts_about(self, code: str) -> Sequence[str]:
        """Return a sentence for each thing that is probably wrong with the result of code, if the
        kernel answers. Tells nothing of private variables. Waits for the kernel."""
        names = mentioned_names(code)
        try:
            variables = self._private.variables()
            data = [variable.name for variable in variables if variable.kind == "data"]
            tables = [v.name for v in variables if v.type in _TABLE_TYPES and v.name in names]
            tables = self._private.unrelated(tables, data)
            return self._kernel.result_doubts(tables, code)
        except KernelError:  # perhaps one that an older version left running
            return ()

    def _is_in_conversation(self, name: str, text: str, is_users: bool, conversation: str) -> bool:
        """Return whether the model still gets an earlier message with this description, and none
        with a newer one."""
        sent = self._sent.get(name)
        if sent is None or (sent.text, sent.is_users) != (text, is_users):
            return False
        return sent.message in conversation

    def for_changes(
        self, changes: Sequence[Change], output: str, code: str = "", cell: int | None = None
    ) -> str:
        """Return what a cell changed, without what its code or its output shows.

        Args:
            changes: The changes of the cell's variables.
            output: What the cell printed; if nothing, the variables are described.
            code: The cell's code.
            cell: The cell's number, by which its message is known.

        Raises:
            KernelError: The kernel could not be asked.
        """
        changes = [change for change in changes if not change.name.startswith("_")]
        deleted_names = [change.name for change in changes if change.change == "deleted"]
        marks: dict[str, str] = {}
        variables: list[Variable] = []
        passing_names = find_passing_names(code)
        # The model knows of what a cell shows for as long as it gets the cell's message.
        message = f'<{AssistantReplOut.tag} cell="{cell}"'
        for name in deleted_names:
            self._sent_lines.pop(name, None)
        for change in changes:
            if change.variable is not None and change.variable.kind != "module":
                variable = self._private.redact_variable(change.variable)
                line = variable_line(variable)
                is_users = self._is_users(change.name)
                is_shown = _is_passing(variable, passing_names) or _is_printed(variable, output)
                if is_shown and not is_users:
                    self._sent_lines[change.name] = _SentLine(line, message)
                    continue
                variables.append(variable)
                marks[change.name] = _MARKS.get(change.change, "")
                if change.is_equal and variable.type != "private":
                    marks[change.name] = UNCHANGED_MARK

        # What the user made is named first, because that matters most.
        users_names = frozenset(filter(self._is_users, marks))
        variables.sort(key=lambda v: (v.name not in users_names, v.kind != "data"))
        listed = _choose_listed(variables, users_names, code)
        omitted_names = [v.name for v in variables if v not in listed]

        descriptions: dict[str, str] = {}
        if not output.strip():
            names = [v.name for v in listed if v.kind == "data" and not _fits_line(v)]
            descriptions = self._describe(listed, names, MAX_DESCRIPTION_CHARS // 3)
        texts = describe_variables(listed, descriptions, users_names, marks, group_others=False)
        for name, text in descriptions.items():
            if name in texts:
                self._sent[name] = _SentDescription(text, name in users_names, texts[name])
                self._sent_lines.pop(name, None)
        self._remember_lines(self._lines(listed, descriptions, {}, users_names, {}), texts)
        return append_omitted_names(join_variables(texts), omitted_names, deleted_names)

    def _describe(
        self, variables: Sequence[Variable], names: Sequence[str], max_chars: int
    ) -> dict[str, str]:
        """Return the kernel's descriptions of some variables, without those of private ones.

        Args:
            variables: All variables of the session.
            names: The names of those to describe.
            max_chars: Maximum characters of each description.
        """
        data_names = [variable.name for variable in variables if variable.kind == "data"]
        names = self._private.unrelated(names, data_names)
        if not names:
            return {}
        try:
            descriptions = self._kernel.describe(names, max_chars)
        except KernelError:
            return {}
        return {name: descriptions[name] for name in names if name in descriptions}

    def _table_lines(self, variables: Sequence[Variable], names: Set[str]) -> dict[str, str]:
        """Describe those of the variables that are tables, the newest first, each in a line with its
        columns."""
        newest = reversed(variables)
        tables = [v.name for v in newest if v.name in names and v.type in _TABLE_TYPES]
        lines: dict[str, str] = {}
        remaining_chars = _MAX_LINES_CHARS
        for name, line in self._describe(variables, tables, _MAX_LINE_CHARS).items():
            remaining_chars -= len(line) + _MARK_CHARS
            if remaining_chars < 0:
                break
            lines[name] = line
        return lines


def _marks_of(line: str) -> str:
    """Return the marks at the end of a line; that of a change is no statement about the value."""
    _, separator, marks = line.removesuffix("]").rpartition("  [")
    if not separator:
        return ""
    return ", ".join(mark for mark in marks.split(", ") if mark not in _CHANGE_MARKS)


def _choose_listed(
    variables: Sequence[Variable], users_names: Set[str], code: str
) -> list[Variable]:
    """Return the changed variables that are described, in their order: those of the user, data, what
    the last lines of the code mention, and the newest."""
    if len(variables) <= _MAX_CHANGED:
        return list(variables)
    last_names = mentioned_names("\n".join(code.rstrip().split("\n")[-_LAST_LINES:]))
    important_first = list(reversed(variables))
    important_first.sort(
        key=lambda v: (v.name not in users_names, v.kind != "data", v.name not in last_names)
    )
    chosen_names = {variable.name for variable in important_first[:_MAX_CHANGED]}
    return [variable for variable in variables if variable.name in chosen_names]


def _is_passing(variable: Variable, passing_names: PassingNames) -> bool:
    """Return whether a cell has bound a variable only in passing. An import may bring data, which
    is worth telling."""
    if variable.name in passing_names.transient:
        return True
    return variable.name in passing_names.imported and variable.kind != "data"


def _is_printed(variable: Variable, output: str) -> bool:
    """Return whether a number or text stands in an output as a whole."""
    value = variable.summary
    if variable.kind != "data" or len(value) < _MIN_PRINTED_CHARS:
        return False
    if variable.type not in _PRINTED_TYPES:
        return False
    pattern = rf"(?<![\w.]){re.escape(value)}(?!\.?\w)"
    return re.search(pattern, output[:_MAX_SEARCHED_CHARS]) is not None


def choose_described(
    variables: Sequence[Variable],
    question: str,
    recent_codes: Sequence[str],
    users_names: Set[str] | None = None,
) -> list[str]:
    """Return the names of the variables worth details: those in the question, then the user's
    variables in recent code, the user's other tables, and the other tables in recent code.

    Args:
        variables: All variables, the newest last.
        question: What the user asks.
        recent_codes: The code of the last cells, the newest last.
        users_names: The names of what the user made; None for all.
    """
    newest = [v for v in reversed(variables) if not v.underscored and not _fits_line(v)]
    newest.sort(key=lambda v: v.kind != "data")
    names_by_code = [mentioned_names(code) for code in reversed(recent_codes)]

    chosen = _in_question([v.name for v in newest], question)
    users_newest = [v for v in newest if users_names is None or v.name in users_names]
    for names in names_by_code:
        chosen += [v.name for v in users_newest if v.name in names]
    chosen += [v.name for v in users_newest if v.type in _TABLE_TYPES]
    for names in names_by_code:
        chosen += [v.name for v in newest if v.name in names and v.type in _TABLE_TYPES]
    return list(dict.fromkeys(chosen))


def _fits_line(variable: Variable) -> bool:
    """Return whether a variable's type and summary say all about it."""
    return (
        variable.kind == "module"
        or variable.type in _ONE_LINE_TYPES
        or (variable.type == "str" and variable.summary.startswith("'"))
    )


def _in_question(names: Sequence[str], question: str) -> list[str]:
    """Return the names that a question mentions, in the order in which it does."""
    words = [word for word in _WORD.findall(question) if word not in ("a", "I")]
    positions: dict[str, int] = {}
    for position, word in enumerate(words):
        for form in _singular_forms(word.lower()):
            positions.setdefault(form, position)
    exact = set(words)
    position_by_name: dict[str, int] = {}
    for name in names:
        if len(name) == 1:
            parts = [name.lower()] if name in exact else []
        elif _singular_forms(name.lower()) & positions.keys():
            parts = [name.lower()]
        else:
            parts = _split_name(name)
        mentioned_forms = [_singular_forms(part) & positions.keys() for part in parts]
        if mentioned_forms and all(mentioned_forms):
            all_forms = set().union(*mentioned_forms)
            position_by_name[name] = min(positions[form] for form in all_forms)
    return sorted(position_by_name, key=position_by_name.__getitem__)


def _split_name(name: str) -> list[str]:
    """Return the words of a name, all of which a question must say; none if one is a letter."""
    parts = [part for part in name.lower().split("_") if part and part not in _PREFIXES]
    return parts if all(len(part) > 1 for part in parts) else []


def _singular_forms(word: str) -> set[str]:
    """Return a word and what its singular may be."""
    forms = {word}
    if len(word) > 3:
        for ending, singular in (("s", ""), ("es", ""), ("ies", "y")):
            if word.endswith(ending):
                forms.add(word.removesuffix(ending) + singular)
    return forms


def _fit(descriptions: dict[str, str]) -> dict[str, str]:
    """Return the descriptions that fit into the maximum with their marks; the last may be cut."""
    remaining_chars = MAX_DESCRIPTION_CHARS
    fitted: dict[str, str] = {}
    for name, text in descriptions.items():
        available_chars = remaining_chars - _MARK_CHARS
        if len(text) > available_chars:
            if available_chars < _MIN_CUT_CHARS:
                break
            text = _cut_lines(text, available_chars)
        if text:
            fitted[name] = text
            remaining_chars -= len(text) + _MARK_CHARS + len("\n\n")
    return fitted


def _cut_lines(text: str, max_chars: int) -> str:
    """Return the first lines of a text; an empty string if not even one fits."""
    more = "\n..."
    lines, newline, _ = text[: max_chars - len(more)].rpartition("\n")
    return f"{lines}{more}" if newline else ""
