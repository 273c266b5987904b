"""Magics of IPython that have no effect here, and what to use instead."""

from __future__ import annotations

from . import reloading
from .notes import note_magic_without_effect
from .state import MagicContext, Reloading

INSTEAD = {
    "autoawait": "await works in every cell",
    "autocall": "write the parentheses, or /f a b in a cell of several lines",
    "automagic": "magic commands work without % in a cell of one line",
    "autosave": "the session is saved continuously",
    "bookmark": "keep a folder in a variable (here = %pwd) and return with %cd $here",
    "code_wrap": "write a function that calls the code",
    "colors": "the theme sets the colours (F10)",
    "config": "F10 has the settings of this program",
    "doctest_mode": "prompts (>>>) are removed from pasted code",
    "gui": "figures are shown automatically",
    "killbgscripts": "!kill NUMBER ends a process, and !jobs is the shell's own",
    "load": "%pycat FILE shows the file, and %run FILE runs it",
    "loadpy": "%pycat FILE shows the file, and %run FILE runs it",
    "logoff": "the session is saved continuously",
    "logon": "the session is saved continuously",
    "logstart": "the session is saved continuously, and /export writes it to a file",
    "logstate": "the session is saved continuously",
    "logstop": "the session is saved continuously",
    "notebook": "/export writes the session to a notebook",
    "page": "Enter on a long output opens it",
    "pastebin": "/export writes the session to a file",
    "pdb": "%debug after an error inspects the place where it was raised",
    "pprint": "print(value) writes a value on one line",
    "recall": "Up in the editor brings earlier inputs, Ctrl+R searches them, and %rerun 3 runs one",
    "rehashx": "!program runs any program of the PATH",
    "rep": "Up in the editor brings earlier inputs, Ctrl+R searches them, and %rerun 3 runs one",
    "sc": "name = !command keeps the lines of a command's output",
    "store": "variables are saved with the session, and `mahtab-tui --continue` brings them back",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}
"""Why magics of IPython have no effect here."""


def accept_inline_backend(text: str, caller: MagicContext) -> None:
    """`%matplotlib`: accept the backend of notebooks silently, because figures are shown in its way
    anyway."""
    if text.strip() not in ("", "inline"):
        explain("matplotlib", INSTEAD["gui"], text, caller)


def explain(name: str, reason: str, text: str, caller: MagicContext) -> None:
    """Say why a magic has no effect."""
    first_line = text.partition("\n")[0]
    note_magic_without_effect(f"%{name} {first_line}".strip(), reason)


def accept_notebook_settings(text: str, caller: MagicContext) -> None:
    """`%config`: accept settings of pictures and completion in notebooks silently: these work
    anyway."""
    if not text.startswith(("InlineBackend", "Completer", "IPCompleter", "ZMQInteractiveShell")):
        explain("config", INSTEAD["config"], text, caller)


def load_extension(text: str, caller: MagicContext) -> None:
    """`%load_ext`: load the only extension that works here."""
    if text.strip() != "autoreload":
        explain("load_ext", INSTEAD["unload_ext"], text, caller)
    elif Reloading.reloader is None:
        Reloading.reloader = reloading.Reloader(automatic=False)
