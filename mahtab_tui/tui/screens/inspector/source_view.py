"""A function, a class or a module: how it is called, what it says of itself, its source with the lines' own numbers."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.looking import Source
from mahtab_tui.tui.screens.inspector.text_source import LocalText
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.inspector.view import Place, View

_DOC = 8
"""Lines of the docstring above the source."""


class SourceView(View, Vertical):
    """The head, and the source below it; without a source, the docstring."""

    def compose(self) -> ComposeResult:
        yield Static(classes="source-head", markup=False)
        yield TextView(self.place, LocalText(""))

    def __init__(self, place: Place) -> None:
        super().__init__(place)

    def on_mount(self) -> None:
        self.look_again()

    def take_focus(self) -> None:
        self.query_one(TextView).focus()

    def look_again(self) -> None:
        place = self.place
        self.fetcher.ask("source", lambda: place.look.source(place.path), self._came, self.fail)

    def _came(self, source: Source) -> None:
        doc = plain(source.doc).strip()
        parts = [Content.styled(plain(source.signature), "bold")] if source.signature else []
        if source.where:
            parts.append(Content.styled(plain(source.where), "$muted"))
        if source.source and doc:
            lines = doc.splitlines()
            parts += [Content(""), Content("\n".join(lines[:_DOC] + (["…"] if len(lines) > _DOC else [])))]
        self.query_one(".source-head", Static).update(Content("\n").join(parts))
        text = self.query_one(TextView)
        if source.source:
            text.show(LocalText(source.source, source.line), "python")
        else:
            text.show(LocalText(doc or "Its source is not known, and it has no docstring."))
