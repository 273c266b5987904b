"""Makes the tables of the manual from the program's own registries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from mahtab_tui import manual
from mahtab_tui.settings.model import Settings
from mahtab_tui.settings.values import NOT_SET, choices, format_value
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.declarations import PANE_COMMANDS
from mahtab_tui.tui.screens.help import help_rows

FOLDER = Path(manual.__file__).parent


def keys() -> str:
    """A table for each group of keys, with the names that a keymap uses."""
    names = {
        f"{command.title}: {command.help}": f"`{command.id}`"
        for command in (*COMMANDS, *PANE_COMMANDS)
    }
    parts = []
    for group, rows in groupby(help_rows(COMMANDS, {}), lambda row: row[0]):
        lines = ((_code(keys), text, names.get(text, "")) for _, keys, text in rows)
        parts.append(f"## {group}\n\n{_table(('key', 'what it does', 'name'), lines)}")
    return "\n\n".join(parts)


def commands() -> str:
    """The slash commands by name."""
    slash_commands = sorted(
        (command for command in COMMANDS if command.slash), key=lambda command: command.slash
    )
    lines = (
        (f"`/{command.slash} {command.argument}".rstrip() + "`", command.help)
        for command in slash_commands
    )
    return _table(("command", "what it does"), lines)


def settings() -> str:
    """Every setting with its default."""
    lines = []
    for key, field in Settings.model_fields.items():
        default = format_value(field.get_default(call_default_factory=True))
        allowed = f" ({', '.join(choices(key))})" if choices(key) else ""
        default_text = "–" if default == NOT_SET else f"`{default}`"
        lines.append((f"`{key}`", f"{field.description}{allowed}", default_text))
    return _table(("setting", "what it does", "default"), lines)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    rows = [head, ["---"] * len(head), *escaped]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


TABLES = {"keys": keys, "commands": commands, "configuration": settings}


def with_tables(topic: str, text: str) -> str:
    """Replace the table of a page."""
    begin = re.search(r"<!-- (keys|commands|settings) -->\n", text)
    end = text.index("<!-- end -->")
    assert begin is not None
    return f"{text[: begin.end()]}\n{TABLES[topic]()}\n\n{text[end:]}"


if __name__ == "__main__":
    for topic in TABLES:
        path = FOLDER / f"{topic}.md"
        path.write_text(with_tables(topic, path.read_text("utf-8")), "utf-8")
