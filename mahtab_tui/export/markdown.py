"""Entries as Markdown, with the outputs of cells."""

from __future__ import annotations

from collections.abc import Iterator

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.entries import Cell, Output
from mahtab_tui.export.notebook import words_of
from mahtab_tui.export.quoting import escaped, fenced, inert
from mahtab_tui.export.selection import Selected


def markdown(selected: Selected) -> str:
    """Return the entries as Markdown. Pictures are part of it."""
    parts = [f"# {escaped(selected.title)}"] if selected.title else []
    for entry in selected.entries:
        if not isinstance(entry, Cell):
            parts.append(words_of(entry, selected))
        elif selected.is_private(entry):
            parts.append("*A cell that uses a private variable is left out.*")
        else:
            undone = " · undone" if entry.undone else ""
            parts.append(f"*In [{entry.number}] · {escaped(entry.party)}{undone}*\n\n{fenced(entry.code, 'python')}")
            parts.extend(_outputs(selected.outputs(entry)))
    return "\n\n".join(plain(part) for part in parts) + "\n"


def _outputs(outputs: list[Output]) -> Iterator[str]:
    for output in outputs:
        if output.mime.startswith("image/"):
            yield f"![picture](data:{output.mime};base64,{output.data})"
        elif output.mime == "text/markdown":
            yield inert(output.data)
        elif output.text.strip():
            yield fenced(output.text, "text")
