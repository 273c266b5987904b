"""Keys that panes handle themselves, for the help."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A key that a pane handles itself, for the help."""

    keys: str
    help: str
    group: str


PANE_KEYS: tuple[Row, ...] = (
    Row("enter", "Run what is complete, send a question; opens a line in what is not complete", "Editor"),
    Row("tab", "Take the completion that is chosen; behind something: complete it; else indent. Shift+Tab dedents", "Editor"),
    Row("`", "At the very start of the editor: Python or Ask. Elsewhere it is a backtick", "Editor"),
    Row("+  ~  −", "A cell added, changed or deleted this name", "Signs"),
    Row("?", "A cell may have changed what this name holds: the object does not show it. The author stays", "Signs"),
    Row("ctrl+j", "Open a line; also Shift+Enter and Alt+Enter where the terminal sends them", "Editor"),
    Row("ctrl+enter", "Run from anywhere in the text, where the terminal sends it", "Editor"),
    Row("up, down", "At the first and last line: earlier and later inputs", "Editor"),
    Row("right, tab", "Take the grey suggestion behind the cursor", "Editor"),
    Row("up, down, enter, escape", "In the list of completions: choose, take (after Tab or an arrow), close", "Editor"),
    Row("alt+e", "Show a large pasted text in full, where [Pasted 312 lines] stands for it; undo folds it again", "Editor"),
    Row("alt+q", "Make curly quotes straight, as a pasted text may have them; undo makes them curly again", "Editor"),
    Row("enter, down, up, escape", "While finding in the input: next, previous, close", "Editor"),
    Row("alt+r", "While finding in the input or in the transcript: by a regular expression, or words as they are", "Editor"),
    Row("ctrl+z, ctrl+y", "Undo, redo", "Editor"),
    Row("ctrl+d", "Leave, when the editor is empty; once more where something would be lost", "Editor"),
    Row("y, e, n, a, escape", "Where code waits: run, edit, skip, run all from now on, stop", "Approval"),
    Row("f5, ctrl+enter", "Where code that waits is edited: run it from anywhere in it; Enter does at its end", "Approval"),
    Row(
        "up, down, pageup, pagedown, home, end",
        "Where long code waits: scroll it. Before its end was seen, y counts only when it comes twice",
        "Approval",
    ),
    Row("y, n", "Where a search wants to make many calls: run them, or don't", "Approval"),
    Row("delete", "Take back the chosen input", "Queue"),
    Row("ctrl+s", "Sort by name, type or recency", "Namespace"),
    Row("ctrl+t", "Show modules, functions and private names", "Namespace"),
    Row("left, right", "Fold, unfold", "Recursion"),
    Row("ctrl+f", "Search the questions and answers of all calls, folded ones too", "Recursion"),
    Row("t", "Of an open call: its text, or its turns", "Recursion"),
    Row("tab", "Of an open call: the next call, or place that its answer rests on; enter goes there", "Recursion"),
    Row("/, n, N", "In its text: search, next, previous", "Recursion"),
    Row("[, ]", "In its text: the places that were found", "Recursion"),
    Row("enter, 1 … 9", "Bring that code block of the last answer into the editor", "Transcript"),
    Row("letters", "Go to the editor, and the cursor with them, from every pane", "Panes"),
    Row("pageup, pagedown, home, end", "Scroll", "Transcript"),
    Row("enter, f4, ctrl+t, tab", "Load or unload the skill; open it in $EDITOR; begin one from a template; go to its text", "Skills"),
    Row("enter, tab, ctrl+r", "Change the setting; write to your file or the project's; take it out of the file", "Settings"),
)
