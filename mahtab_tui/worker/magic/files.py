"""Shows, writes and edits files: `%pycat`, `%%writefile` and `%edit`."""

from __future__ import annotations

import os

from ..tools import shell_commands
from ..values.displays import Display, show
from .programs import split_words
from .state import MagicContext


def show_file(path_text: str, caller: MagicContext) -> None:
    """`%pycat`: show a file of Python code in colours."""
    path = os.path.expanduser(path_text.strip().strip("'\""))
    with open(path, encoding="utf-8") as file:
        text = file.read()
    show(Display("text/markdown", f"```python\n{text.rstrip()}\n```", text))


def write_cell(argument_and_text: str, caller: MagicContext) -> None:
    """`%%writefile`: write the cell to a file, or add it to one."""
    first_line, _, text = argument_and_text.partition("\n")
    words = split_words(first_line)
    paths = [word for word in words if word != "-a"]
    if len(paths) != 1 or not text.strip():
        raise ValueError(
            "%%writefile needs a file, as in %%writefile notes.txt, and the text below it"
        )
    path = os.path.expanduser(paths[0])
    appends = "-a" in words
    action = "wrote"
    if os.path.exists(path):
        action = "added to" if appends else "replaced"
    with open(path, "a" if appends else "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    print(f"{action} {paths[0]}")


def edit_file(text: str, caller: MagicContext) -> None:
    """Open a file in the user's editor: ``%edit FILE``."""
    path = text.strip().strip("'\"")
    if path:
        shell_commands.open_in_editor(os.path.expanduser(path))
    else:
        print("%edit FILE opens a file in your editor. F4 opens the input there.")
