"""A function, class or module: its signature, docstring and source, numbered as in its file."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import Source
from mahtab_tui.tui.screens.inspector.text_source import LocalText
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.inspector.view import View

_DOC = 8
"""Lines of the docstring that are shown above the source."""


class SourceView(View, Vertical):
    """Signature and docstring above the source; without a source, the docstring alone."""

    def compose(self) -> ComposeResult:
        yield Static(classes="source-head", markup=False)
        yield TextView(self.subject, LocalText(""))

    def on_mount(self) -> None:
        self.reload()

    def take_focus(self) -> None:
        self.query_one(TextView).focus()

    def reload(self) -> None:
        subject = self.subject
        self.fetcher.ask("source", lambda: subject.look.source(subject.path), self._show, self.fail)

    def _show(self, source: Source) -> None:
        doc = plain(source.doc).strip()
        parts = [Content.styled(plain(source.signature), "bold")] if source.signature else []
        if source.where:
            parts.append(Content.styled(plain(source.where), "$muted"))
        if source.source and doc:
            lines = doc.splitlines()
            parts += [
                Content(""),
                Content("\n".join(lines[:_DOC] + (["…"] if len(lines) > _DOC else []))),
            ]
        self.query_one(".source-head", Static).update(Content("\n").join(parts))
        text = self.query_one(TextView)
        if source.source:
            text.show(LocalText(source.source, source.line), "python")
        else:
            text.show(LocalText(doc or "No source was found, and there is no docstring."))
