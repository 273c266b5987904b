"""Vi's commands that prompt_toolkit (3.0.53) lacks, or does otherwise than Vi.

As in prompt_toolkit, the start and the end of a text object are distances in characters from the
cursor, and a failed motion is a text object from 0 to 0.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.clipboard import ClipboardData
from prompt_toolkit.document import Document
from prompt_toolkit.filters import vi_navigation_mode, vi_selection_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.vi import (
    TextObject,
    TextObjectType,
    create_operator_decorator,
    create_text_object_decorator,
)
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.selection import PasteMode, SelectionType

MAX_REPEATS = 1000
"""An insertion, a paste, an undo or a redo with a count is repeated at most this often."""
_INDENT_CHARS = 4
_QUOTES = "'\"`"
_BRACKET_PAIRS = {"()": "()b", "[]": "[]", "{}": "{}B", "<>": "<>"}
"""By a pair of brackets, the keys that name it in a text object."""
_EMPTY_PAIRS = {
    **{key: pair for pair, keys in _BRACKET_PAIRS.items() for key in keys},
    **{quote: quote * 2 for quote in _QUOTES},
}
"""Brackets or quotes with nothing between them, by the key that names them in a text object."""
_FAILING_MOTIONS = frozenset("fFtT;,%bBia")
"""The first keys of motions and text objects that fail if they are empty. Others may be empty: `c0` at
the start of a line goes to insert mode."""
_ROW_MOTIONS = frozenset("jk")
"""Motions that fail if there is no other line in their direction."""
_BRACKET = re.compile(r"[()\[\]{}]")
_WORD_OR_BLANKS = {"w": re.compile(r"\s+|\w+|[^\s\w]+"), "W": re.compile(r"\s+|\S+")}
"""What a line consists of, by the key that names a word in a text object."""


def _swap_case(text: str) -> str:
    """Swap the case of a text, but not of a letter such as ß that would become two."""
    pairs = ((character, character.swapcase()) for character in text)
    return "".join(swapped if len(swapped) == 1 else character for character, swapped in pairs)


_CASE_CHANGES: dict[str, Callable[[str], str]] = {
    "u": str.lower,
    "U": str.upper,
    "~": _swap_case,
}
"""What changes the case of a text, by the key that follows `g`, or that is pressed alone in visual
mode."""


def make_bindings() -> KeyBindings:
    """Return the bindings of these commands, for an application in Vi's editing mode."""
    bindings = KeyBindings()
    _add_operators(bindings)
    _add_text_objects(bindings)
    _add_commands(bindings)
    _add_selection_commands(bindings)
    return bindings


def _add_operators(bindings: KeyBindings) -> None:
    """Add operators that do nothing if their motion fails, and leave the cursor at its start."""
    operator = create_operator_decorator(bindings)

    @operator("d")
    def delete(event: KeyPressEvent, text_object: TextObject) -> None:
        if not _has_failed(event, text_object):
            _cut(event, text_object)

    @operator("s", filter=vi_selection_mode)
    @operator("c")
    def change(event: KeyPressEvent, text_object: TextObject) -> None:
        if _has_failed(event, text_object):
            return
        if text_object.type == TextObjectType.LINEWISE:
            _empty_lines(event, text_object)
        else:
            _cut(event, text_object)
        event.app.vi_state.input_mode = InputMode.INSERT

    @operator("y")
    def copy(event: KeyPressEvent, text_object: TextObject) -> None:
        if not _has_failed(event, text_object) and not _is_empty(text_object):
            _, data = text_object.cut(event.current_buffer)
            event.app.clipboard.set_data(data)
            event.current_buffer.cursor_position += text_object.sorted()[0]

    for key, change_case in _CASE_CHANGES.items():
        operator("g", key)(_case_operator(change_case))

    @operator(">")
    def indent(event: KeyPressEvent, text_object: TextObject) -> None:
        _indent_range(event, text_object, 1)

    @operator("<")
    def outdent(event: KeyPressEvent, text_object: TextObject) -> None:
        _indent_range(event, text_object, -1)


def _case_operator(
    change_case: Callable[[str], str],
) -> Callable[[KeyPressEvent, TextObject], None]:
    """Return an operator that changes the case of its text."""

    def change_range(event: KeyPressEvent, text_object: TextObject) -> None:
        buffer = event.current_buffer
        start, end = text_object.operator_range(buffer.document)
        cursor = buffer.cursor_position
        if start < end and not _has_failed(event, text_object):
            buffer.transform_region(cursor + start, cursor + end, change_case)
            buffer.cursor_position = cursor + text_object.sorted()[0]

    return change_range


def _indent_range(event: KeyPressEvent, text_object: TextObject, direction: int) -> None:
    """Indent the lines of a text object (1) or outdent them (-1)."""
    if _has_failed(event, text_object):
        return
    buffer = event.current_buffer
    document = buffer.document
    start, end = text_object.operator_range(document)
    first_row, _ = document.translate_index_to_position(document.cursor_position + start)
    is_linewise = text_object.type == TextObjectType.LINEWISE
    # A range of characters may end with a line break. The line after it does not belong to the range.
    last = end if is_linewise else end - 1
    last_index = document.cursor_position + max(start, last)
    last_row, _ = document.translate_index_to_position(last_index)
    # The count of a motion says how far it goes; that of a selection says how often to indent.
    steps = event.arg if buffer.selection_state is not None else 1
    _indent_lines(buffer, first_row, last_row, direction * min(steps, MAX_REPEATS))


def _indent_lines(buffer: Buffer, first_row: int, last_row: int, steps: int) -> None:
    """Indent lines that are not empty, or outdent them if `steps` is negative."""
    lines = list(buffer.document.lines)
    for row in range(first_row, min(last_row + 1, len(lines))):
        code = lines[row].lstrip(" \t")
        old_indent = lines[row].removesuffix(code).expandtabs(_INDENT_CHARS)
        indent_width = len(old_indent) + steps * _INDENT_CHARS
        lines[row] = " " * indent_width + code if lines[row] else ""
    text = "\n".join(lines)
    buffer.document = Document(text, Document(text).translate_row_col_to_index(first_row, 0))
    _go_to_first_character(buffer)


def _is_empty(text_object: TextObject) -> bool:
    """Return whether a text object has no character: a failed motion, an empty pair of brackets, or a
    word in an empty line."""
    is_exclusive = text_object.type == TextObjectType.EXCLUSIVE
    return is_exclusive and text_object.start == text_object.end


def _has_failed(event: KeyPressEvent, text_object: TextObject) -> bool:
    """Return whether the motion or the text object of an operator has failed."""
    key = event.key_sequence[0].data
    if key in _ROW_MOTIONS and text_object.type == TextObjectType.LINEWISE:
        return text_object.start == 0
    if key not in _FAILING_MOTIONS or text_object.start or not _is_empty(text_object):
        return False
    if key != "i":
        return True
    document = event.current_buffer.document
    object_key = event.key_sequence[1].data
    if object_key in _WORD_OR_BLANKS:
        # In an empty line, `ciw` does not fail.
        return bool(document.current_line)
    pair = document.char_before_cursor + document.current_char
    # Between the brackets of an empty pair, `ci(` does not fail.
    return pair != _EMPTY_PAIRS.get(object_key)


def _cut(event: KeyPressEvent, text_object: TextObject) -> None:
    """Remove a text, and put it into the clipboard; if it is empty, only go to its start."""
    buffer = event.current_buffer
    if _is_empty(text_object):
        buffer.cursor_position += text_object.start
    elif text_object.type == TextObjectType.LINEWISE:
        start, lines = _copy_lines(event, text_object)
        text_before = buffer.text[:start]
        text_after = buffer.text[start + len(lines) + 1 :]
        if not text_after:
            text_before = text_before.removesuffix("\n")
            start = text_before.rfind("\n") + 1
        buffer.document = Document(text_before + text_after, start)
        _go_to_first_character(buffer)
    else:
        buffer.document, data = text_object.cut(buffer)
        event.app.clipboard.set_data(data)


def _empty_lines(event: KeyPressEvent, text_object: TextObject) -> None:
    """Remove lines, and put them into the clipboard. A line with the indent of the first one stays."""
    buffer = event.current_buffer
    start, lines = _copy_lines(event, text_object)
    indent = lines[: len(lines) - len(lines.lstrip(" "))]
    new_text = buffer.text[:start] + indent + buffer.text[start + len(lines) :]
    buffer.document = Document(new_text, start + len(indent))


def _copy_lines(event: KeyPressEvent, text_object: TextObject) -> tuple[int, str]:
    """Copy whole lines to the clipboard.

    Returns:
        The index at which they start in the text, and the lines.
    """
    buffer = event.current_buffer
    start, end = text_object.operator_range(buffer.document)
    lines = buffer.text[buffer.cursor_position + start : buffer.cursor_position + end]
    event.app.clipboard.set_data(ClipboardData(lines, SelectionType.LINES))
    return buffer.cursor_position + start, lines


def _go_to_first_character(buffer: Buffer) -> None:
    """Go to the first character of the line that is not blank."""
    buffer.cursor_position += buffer.document.get_start_of_line_position(after_whitespace=True)


def _add_text_objects(bindings: KeyBindings) -> None:
    """Add motions, and text objects for operators."""
    text_object = create_text_object_decorator(bindings)

    @text_object("%")
    def matching_bracket(event: KeyPressEvent) -> TextObject:
        document = event.current_buffer.document
        bracket = _BRACKET.search(document.current_line_after_cursor)
        if bracket is None:
            return TextObject(0)
        at_bracket = Document(document.text, document.cursor_position + bracket.start())
        distance = at_bracket.find_matching_bracket_position()
        return TextObject(bracket.start() + distance, type=TextObjectType.INCLUSIVE)

    @text_object("G")
    def line_by_number_or_last(event: KeyPressEvent) -> TextObject:
        # After an operator, no count is 1, too.
        has_number = event.arg > 1 or (event.arg_present and not event.app.vi_state.operator_func)
        return _line(event, event.arg if has_number else None)

    @text_object("g", "g")
    def line_by_number(event: KeyPressEvent) -> TextObject:
        return _line(event, event.arg)

    # After an operator, some motions end elsewhere than alone.
    operator_range = functools.partial(text_object, no_move_handler=True, no_selection_handler=True)

    @text_object("$")
    def end_of_line(event: KeyPressEvent) -> TextObject:
        return TextObject(_end_of_line(event))

    @operator_range("$")
    def rest_of_line(event: KeyPressEvent) -> TextObject:
        return _rest_of_line(event)

    @operator_range("w")
    def words(event: KeyPressEvent) -> TextObject:
        return _words(event, between_blanks=False)

    @operator_range("W")
    def words_between_blanks(event: KeyPressEvent) -> TextObject:
        return _words(event, between_blanks=True)

    for key in _WORD_OR_BLANKS:
        _add_word_objects(bindings, key)

    for key, between_blanks in (("b", False), ("B", True)):
        text_object(key)(_backward_motion(between_blanks=between_blanks))

    for key, between_blanks in (("e", False), ("E", True)):
        text_object(key)(_end_of_word_motion(between_blanks=between_blanks))

    @text_object("i", "p", no_move_handler=True)
    def paragraph(event: KeyPressEvent) -> TextObject:
        return _paragraph(event.current_buffer.document, with_gap=False)

    @text_object("a", "p", no_move_handler=True)
    def paragraph_with_gap(event: KeyPressEvent) -> TextObject:
        return _paragraph(event.current_buffer.document, with_gap=True)

    for quote in _QUOTES:
        _add_quoted_text(bindings, quote)
    for pair, keys in _BRACKET_PAIRS.items():
        for key in keys:
            _add_bracketed_text(bindings, pair, key)


def _line(event: KeyPressEvent, number: int | None) -> TextObject:
    """Return the lines from the cursor to a line, which counts from 1; None for the last one."""
    document = event.current_buffer.document
    line_count = document.line_count
    row = line_count - 1 if number is None else min(max(number, 1), line_count) - 1
    start = document.translate_row_col_to_index(row, 0)
    line = document.lines[row]
    indent_chars = len(line) - len(line.lstrip())
    distance = start + indent_chars - document.cursor_position
    return TextObject(distance, type=TextObjectType.LINEWISE)


def _end_of_line(event: KeyPressEvent) -> int:
    """Return the distance to the end of the line, or with a count to the end of a line below."""
    document = event.current_buffer.document
    row = min(document.cursor_position_row + event.arg, document.line_count) - 1
    end = document.translate_row_col_to_index(row, len(document.lines[row]))
    return end - document.cursor_position


def _rest_of_line(event: KeyPressEvent) -> TextObject:
    """Return the text from the cursor to `_end_of_line`."""
    distance = _end_of_line(event)
    if not distance:
        return TextObject(0)
    # From an exclusive range, prompt_toolkit does not cut a line break before an empty line.
    return TextObject(distance - 1, type=TextObjectType.INCLUSIVE)


def _words(event: KeyPressEvent, *, between_blanks: bool) -> TextObject:
    """Return the words from the cursor for an operator, with the blanks between and after them.

    They end at the end of a line at the latest, so the line break after the last word stays.

    Args:
        event: Has the number of words.
        between_blanks: Whether only blanks separate words, as for `W`.
    """
    document = event.current_buffer.document
    distance_to_last: int | None = 0
    if event.arg > 1:
        distance_to_last = document.find_next_word_beginning(event.arg - 1, between_blanks)
    if distance_to_last is None:  # there are fewer words
        return TextObject(len(document.text_after_cursor))
    at_last_word = Document(document.text, document.cursor_position + distance_to_last)
    remaining_line_chars = len(at_last_word.current_line_after_cursor)
    word_chars = at_last_word.find_next_word_beginning(1, between_blanks) or remaining_line_chars
    return TextObject(distance_to_last + min(word_chars, remaining_line_chars))


def _backward_motion(*, between_blanks: bool) -> Callable[[KeyPressEvent], TextObject]:
    """Return `b` or `B`, which goes to the start of the text if there are fewer words."""

    def start_of_word(event: KeyPressEvent) -> TextObject:
        document = event.current_buffer.document
        distance = document.find_start_of_previous_word(event.arg, between_blanks)
        return TextObject(-document.cursor_position if distance is None else distance)

    return start_of_word


def _end_of_word_motion(*, between_blanks: bool) -> Callable[[KeyPressEvent], TextObject]:
    """Return `e` or `E`, which goes to the end of the text if there are fewer words."""

    def end_of_word(event: KeyPressEvent) -> TextObject:
        document = event.current_buffer.document
        distance = document.find_next_word_ending(count=event.arg, WORD=between_blanks)
        if distance is None:
            distance = len(document.text_after_cursor)
        return TextObject(max(0, distance - 1), type=TextObjectType.INCLUSIVE)

    return end_of_word


def _add_word_objects(bindings: KeyBindings, key: str) -> None:
    """Add the text objects of a word. key: `w`, or `W` if only blanks separate words."""
    text_object = create_text_object_decorator(bindings)

    @text_object("i", key, no_move_handler=True)
    def word(event: KeyPressEvent) -> TextObject:
        return _word_object(event.current_buffer.document, key, with_gap=False)

    @text_object("a", key, no_move_handler=True)
    def word_with_gap(event: KeyPressEvent) -> TextObject:
        return _word_object(event.current_buffer.document, key, with_gap=True)


def _word_object(document: Document, key: str, *, with_gap: bool) -> TextObject:
    """Return the word at the cursor; between words, the blanks.

    Args:
        document: The text and the cursor.
        key: A key of `_WORD_OR_BLANKS`.
        with_gap: Whether the blanks after a word are added, or those before the last one of the line;
            or the word after blanks.
    """
    column = document.cursor_position_col
    line = document.current_line
    parts = list(_WORD_OR_BLANKS[key].finditer(line))
    index = next((index for index, part in enumerate(parts) if part.end() > column), None)
    if index is None:
        return TextObject(0)
    start, end = parts[index].span()
    if with_gap:
        is_blank = line[start].isspace()
        next_end = parts[index + 1].end() if index + 1 < len(parts) else end
        if is_blank or line[end : end + 1].isspace():
            end = next_end
        elif line[:start].strip() and line[start - 1].isspace():
            start = parts[index - 1].start()
    return TextObject(start - column, end - column)


def _add_quoted_text(bindings: KeyBindings, quote: str) -> None:
    """Add the text objects of a text between quotes."""
    text_object = create_text_object_decorator(bindings)

    @text_object("i", quote, no_move_handler=True)
    def quoted_text(event: KeyPressEvent) -> TextObject:
        start, end = _quoted_range(event.current_buffer.document, quote)
        return TextObject(start + 1, end - 1) if start < end else TextObject(0)

    @text_object("a", quote, no_move_handler=True)
    def text_with_quotes(event: KeyPressEvent) -> TextObject:
        document = event.current_buffer.document
        start, end = _quoted_range(document, quote)
        if start == end:
            return TextObject(0)
        return TextObject(*_range_with_blanks(document, start, end))


def _add_bracketed_text(bindings: KeyBindings, pair: str, key: str) -> None:
    """Add the text objects of a text between brackets."""
    text_object = create_text_object_decorator(bindings)

    @text_object("i", key, no_move_handler=True)
    def bracketed_text(event: KeyPressEvent) -> TextObject:
        start, end = _bracketed_range(event.current_buffer.document, pair)
        return TextObject(start + 1, end) if start < end else TextObject(0)

    @text_object("a", key, no_move_handler=True)
    def text_with_brackets(event: KeyPressEvent) -> TextObject:
        start, end = _bracketed_range(event.current_buffer.document, pair)
        return TextObject(start, end + 1) if start < end else TextObject(0)


def _bracketed_range(document: Document, pair: str) -> tuple[int, int]:
    """Return where the brackets around the cursor are; outside of brackets, where the next ones are.

    Both are 0 if there are none.
    """
    start = document.find_enclosing_bracket_left(*pair)
    end = document.find_enclosing_bracket_right(*pair)
    if start is not None and end is not None:
        return start, end
    next_start = document.text.find(pair[0], document.cursor_position)
    if next_start < 0:
        return 0, 0
    distance = next_start - document.cursor_position
    length = Document(document.text, next_start).find_matching_bracket_position()
    return (distance, distance + length) if length else (0, 0)


def _quoted_range(document: Document, quote: str) -> tuple[int, int]:
    """Return the start and the end of the first text in quotes that ends after the cursor, in its line.

    Both are 0 if there is none.
    """
    column = document.cursor_position_col
    pattern = rf"{quote}(?:\\.|[^\\{quote}])*{quote}"
    for match in re.finditer(pattern, document.current_line):
        if match.end() > column:
            return match.start() - column, match.end() - column
    return 0, 0


def _range_with_blanks(document: Document, start: int, end: int) -> tuple[int, int]:
    """Return a range with the blanks after it, or if there are none, with the blanks before it."""
    column = document.cursor_position_col
    text_before = document.current_line[: column + start]
    text_after = document.current_line[column + end :]
    blank_count = len(text_after) - len(text_after.lstrip(" "))
    if blank_count:
        return start, end + blank_count
    return len(text_before.rstrip(" ")) - column, end


def _paragraph(document: Document, *, with_gap: bool) -> TextObject:
    """Return the paragraph at the cursor; in a gap between paragraphs, the blank lines of the gap.

    Args:
        document: The text and the cursor.
        with_gap: Whether the gap after the paragraph is added, or the paragraph after the gap.
    """
    blank_lines = [not line.strip() for line in document.lines]
    first_row = document.cursor_position_row
    is_blank = blank_lines[first_row]
    last_row = _last_row_alike(blank_lines, first_row, is_blank)
    while first_row > 0 and blank_lines[first_row - 1] == is_blank:
        first_row -= 1
    if with_gap:
        last_row = _last_row_alike(blank_lines, last_row, not is_blank)
    start = document.translate_row_col_to_index(first_row, 0)
    end = document.translate_row_col_to_index(last_row, len(document.lines[last_row]))
    cursor = document.cursor_position
    return TextObject(start - cursor, end - cursor, TextObjectType.LINEWISE)


def _last_row_alike(blank_lines: Sequence[bool], row: int, is_blank: bool) -> int:
    """Return the last of the rows after one that follow each other and are all blank, or all not."""
    while row + 1 < len(blank_lines) and blank_lines[row + 1] == is_blank:
        row += 1
    return row


def _add_commands(bindings: KeyBindings) -> None:
    """Add commands of normal mode that are complete by themselves."""

    @bindings.add("p", filter=vi_navigation_mode)
    def paste_after(event: KeyPressEvent) -> None:
        _paste(event, PasteMode.VI_AFTER)

    @bindings.add("P", filter=vi_navigation_mode)
    def paste_before(event: KeyPressEvent) -> None:
        _paste(event, PasteMode.VI_BEFORE)

    @bindings.add("r", Keys.Any, filter=vi_navigation_mode)
    def replace_characters(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            _overwrite(event.current_buffer, event.data * event.arg)

    @bindings.add("~", filter=vi_navigation_mode)
    def swap_case(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.document.current_line_after_cursor[: event.arg]
        _overwrite(buffer, _swap_case(text))
        buffer.cursor_position += 1

    @bindings.add("c", "c", filter=vi_navigation_mode)
    @bindings.add("S", filter=vi_navigation_mode)
    def change_lines(event: KeyPressEvent) -> None:
        document = event.current_buffer.document
        last_row = min(document.cursor_position_row + event.arg, document.line_count) - 1
        last_line = document.translate_row_col_to_index(last_row, 0)
        distance = last_line - document.cursor_position
        _empty_lines(event, TextObject(0, distance, TextObjectType.LINEWISE))
        event.app.vi_state.input_mode = InputMode.INSERT

    for key, change_case in _CASE_CHANGES.items():
        bindings.add("g", key, key, filter=vi_navigation_mode)(_line_changer(change_case))

    @bindings.add("s", filter=vi_navigation_mode)
    def change_characters(event: KeyPressEvent) -> None:
        rest_length = len(event.current_buffer.document.current_line_after_cursor)
        _cut(event, TextObject(min(event.arg, rest_length)))
        event.app.vi_state.input_mode = InputMode.INSERT

    @bindings.add("D", filter=vi_navigation_mode)
    def delete_to_end_of_line(event: KeyPressEvent) -> None:
        _cut(event, _rest_of_line(event))

    @bindings.add("C", filter=vi_navigation_mode)
    def change_to_end_of_line(event: KeyPressEvent) -> None:
        _cut(event, _rest_of_line(event))
        event.app.vi_state.input_mode = InputMode.INSERT

    @bindings.add(">", ">", filter=vi_navigation_mode)
    def indent_lines(event: KeyPressEvent) -> None:
        row = event.current_buffer.document.cursor_position_row
        _indent_lines(event.current_buffer, row, row + event.arg - 1, 1)

    @bindings.add("<", "<", filter=vi_navigation_mode)
    def outdent_lines(event: KeyPressEvent) -> None:
        row = event.current_buffer.document.cursor_position_row
        _indent_lines(event.current_buffer, row, row + event.arg - 1, -1)

    @bindings.add("J", filter=vi_navigation_mode)
    def join_lines(event: KeyPressEvent) -> None:
        _join_lines(event.current_buffer, event.arg)


def _line_changer(change: Callable[[str], str]) -> Callable[[KeyPressEvent], None]:
    """Return a command that changes the text of the line, or with a count of several lines."""

    def change_line_range(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        start = buffer.cursor_position + buffer.document.get_start_of_line_position()
        end = buffer.cursor_position + _end_of_line(event)
        if start < end:
            buffer.transform_region(start, end, change)
        if event.arg == 1:
            _go_to_first_character(buffer)

    return change_line_range


def _paste(event: KeyPressEvent, mode: PasteMode) -> None:
    """Insert what is in the clipboard as often as the count says."""
    buffer = event.current_buffer
    data = event.app.clipboard.get_data()
    is_part_of_line = data.type == SelectionType.CHARACTERS
    if is_part_of_line and not data.text:
        return
    if is_part_of_line and not buffer.document.current_line:
        # Behind the cursor, the next line begins.
        mode = PasteMode.VI_BEFORE
    buffer.paste_clipboard_data(data, mode, min(event.arg, MAX_REPEATS))
    if data.type == SelectionType.LINES:
        _go_to_first_character(buffer)


def _overwrite(buffer: Buffer, text: str) -> None:
    """Replace the characters at the cursor by a text, and go to the last one.

    Nothing happens if the line has fewer characters.
    """
    if not 0 < len(text) <= len(buffer.document.current_line_after_cursor):
        return
    cursor = buffer.cursor_position
    new_text = buffer.text[:cursor] + text + buffer.text[cursor + len(text) :]
    buffer.document = Document(new_text, cursor + len(text) - 1)


def _join_lines(buffer: Buffer, line_count: int) -> None:
    """Join the line with the one below it, or with so many that `line_count` lines become one."""
    for _ in range(max(1, line_count - 1)):
        document = buffer.document
        if document.on_last_line:
            return
        end = document.cursor_position + document.get_end_of_line_position()
        text = document.text[:end]
        next_text = document.text[end + 1 :].lstrip(" \t")
        needs_no_blank = (
            not text
            or not next_text
            or text.endswith((" ", "\n"))
            or next_text.startswith((")", "\n"))
        )
        separator = "" if needs_no_blank else " "
        cursor = end if separator or next_text else max(0, end - 1)
        buffer.document = Document(text + separator + next_text, cursor)


def _add_selection_commands(bindings: KeyBindings) -> None:
    """Add commands of the visual modes."""
    for key, change_case in _CASE_CHANGES.items():
        bindings.add(key, filter=vi_selection_mode)(_selection_changer(change_case))

    @bindings.add("r", Keys.Any, filter=vi_selection_mode)
    def replace_selection(event: KeyPressEvent) -> None:
        character = event.data
        if character and character.isprintable():
            _change_selection(
                event.current_buffer, lambda text: re.sub(r"[^\n]", lambda _: character, text)
            )

    @bindings.add("J", filter=vi_selection_mode)
    def join_selection(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        start, _end = _selected_range(buffer)
        # A line break that is the last selected character belongs to the last line.
        first, last = buffer.document.selection_range()
        line_count = buffer.text.count("\n", first, last) + 1
        buffer.exit_selection()
        buffer.cursor_position = start
        _join_lines(buffer, line_count)

    @bindings.add("p", filter=vi_selection_mode)
    @bindings.add("P", filter=vi_selection_mode)
    def replace_by_clipboard(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        data = event.app.clipboard.get_data()
        start, end = _selected_range(buffer)
        selection = buffer.selection_state
        selection_type = SelectionType.CHARACTERS if selection is None else selection.type
        event.app.clipboard.set_data(ClipboardData(buffer.text[start:end], selection_type))
        # Whole lines that replace a part of a line become lines of their own.
        puts_lines_inside = data.type == SelectionType.LINES and selection_type != data.type
        line_break = "\n" if puts_lines_inside else ""
        text = f"{line_break}{data.text}{line_break}"
        _change_selection(buffer, lambda _: text)
        if data.type == SelectionType.CHARACTERS:
            buffer.cursor_position += max(0, len(text) - 1)


def _selection_changer(change: Callable[[str], str]) -> Callable[[KeyPressEvent], None]:
    """Return a command that changes what is selected."""

    def change_selected(event: KeyPressEvent) -> None:
        _change_selection(event.current_buffer, change)

    return change_selected


def _selected_range(buffer: Buffer) -> tuple[int, int]:
    """Return the indexes of the start and the end of what is selected in the text.

    If whole lines are selected, the line break of the last one is left out.
    """
    start, last = buffer.document.selection_range()
    selection = buffer.selection_state
    if selection is None or selection.type != SelectionType.LINES:
        return start, min(last + 1, len(buffer.text))
    line_start = buffer.text.rfind("\n", 0, start) + 1
    line_end = buffer.text.find("\n", last)
    return line_start, len(buffer.text) if line_end < 0 else line_end


def _change_selection(buffer: Buffer, change: Callable[[str], str]) -> None:
    """Change what is selected, and end the selection."""
    start, end = _selected_range(buffer)
    text = buffer.text
    buffer.exit_selection()
    buffer.document = Document(text[:start] + change(text[start:end]) + text[end:], start)
