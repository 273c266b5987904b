"""Keys that panes handle themselves, for the help."""

from __future__ import annotations

from typing import NamedTuple


class KeyHelp(NamedTuple):
    keys: str
    help: str
    group: str


PANE_KEYS: tuple[KeyHelp, ...] = (
    KeyHelp(
        "enter", "Run complete code or send a question; in incomplete code, open a line", "Editor"
    ),
    KeyHelp(
        "tab",
        "Accept the chosen completion; after a word, complete it; otherwise indent. Shift+Tab dedents",
        "Editor",
    ),
    KeyHelp(
        "`", "At the very start of the editor: Python or Ask. Elsewhere it is a backtick", "Editor"
    ),
    KeyHelp("+  ~  −", "A cell added, changed or deleted this name", "Signs"),
    KeyHelp(
        "?",
        "A cell may have changed this object, which is too large to compare or cannot be inspected. The author stays",
        "Signs",
    ),
    KeyHelp(
        "ctrl+j", "Open a line; also Shift+Enter and Alt+Enter if the terminal sends them", "Editor"
    ),
    KeyHelp("ctrl+enter", "Run from anywhere in the text, if the terminal sends it", "Editor"),
    KeyHelp("up, down", "At the first and last line: earlier and later inputs", "Editor"),
    KeyHelp("right, tab", "Accept the grey suggestion behind the cursor", "Editor"),
    KeyHelp(
        "up, down, enter, escape",
        "In the list of completions: choose, accept (after Tab or an arrow), close",
        "Editor",
    ),
    KeyHelp(
        "alt+e",
        "Show a large pasted text in place of [Pasted 312 lines]; undo brings the short form back",
        "Editor",
    ),
    KeyHelp(
        "alt+q",
        "Make the curly quotes of a pasted text straight; undo makes them curly again",
        "Editor",
    ),
    KeyHelp(
        "enter, down, up, escape", "While finding in the input: next, previous, close", "Editor"
    ),
    KeyHelp(
        "alt+r",
        "While finding in the input or the transcript: switch between regular expression and plain words",
        "Editor",
    ),
    KeyHelp("ctrl+z, ctrl+y", "Undo, redo", "Editor"),
    KeyHelp(
        "ctrl+d",
        "Leave, if the editor is empty; press it again if something would be lost",
        "Editor",
    ),
    KeyHelp(
        "y, e, n, a, escape",
        "While code waits: run, edit, skip, run all from now on, stop",
        "Approval",
    ),
    KeyHelp(
        "f5, ctrl+enter",
        "While waiting code is edited: run it from anywhere; Enter runs it at its end",
        "Approval",
    ),
    KeyHelp(
        "up, down, pageup, pagedown, home, end",
        "While long code waits: scroll it. Until you have seen its end, y must be pressed twice",
        "Approval",
    ),
    KeyHelp("y, n", "When a search asks to make many calls: run them, or don't", "Approval"),
    KeyHelp("delete", "Remove the chosen input from the queue", "Queue"),
    KeyHelp("ctrl+s", "Sort by name, type or recency", "Namespace"),
    KeyHelp("ctrl+t", "Show modules, functions and names with _", "Namespace"),
    KeyHelp("left, right", "Collapse, expand", "Recursion"),
    KeyHelp(
        "ctrl+f", "Search the questions and answers of all calls, collapsed ones too", "Recursion"
    ),
    KeyHelp("t", "In an open call: its text, or its turns", "Recursion"),
    KeyHelp(
        "tab",
        "In an open call: go to the next call or place that its answer rests on; Enter opens it",
        "Recursion",
    ),
    KeyHelp("/, n, N", "In its text: search, next, previous", "Recursion"),
    KeyHelp("[, ]", "In its text: previous and next match", "Recursion"),
    KeyHelp("letters", "From any pane, typing goes to the editor", "Panes"),
    KeyHelp("pageup, pagedown, home, end", "Scroll", "Transcript"),
    KeyHelp(
        "enter, f4, ctrl+t, tab",
        "Load or unload the skill; open it in $EDITOR; create one from a template; go to its text",
        "Skills",
    ),
    KeyHelp("enter", "Switch from this session to the one at the cursor", "Sessions"),
    KeyHelp(
        "f2, f5, f6, f7, f8",
        "Change its title; copy it; export it to a file; stop its kernel; delete it, after a confirmation",
        "Sessions",
    ),
    KeyHelp("ctrl+t", "List the sessions of this folder, or of all", "Sessions"),
    KeyHelp(
        "tab", "Go to its text: the arrows mark an entry; F5 copies what came before it", "Sessions"
    ),
    KeyHelp(
        "enter, tab, ctrl+r",
        "Change the setting; choose your file or the project's; remove it from the file",
        "Settings",
    ),
)
