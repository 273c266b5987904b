"""A view of an object's source code, below its signature and docstring."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import SourceCode
from mahtab_tui.tui.inspector import View
from mahtab_tui.tui.inspector.text import TextView
from mahtab_tui.tui.rows.text_source import LocalText

MAX_DOC_LINES = 8
"""The docstring above the source has at most this many lines."""


class SourceView(View, Vertical):
    """Shows an object's source, or, if there is none, its docstring; above it, what else is known."""

    def compose(self) -> ComposeResult:
        yield Static(classes="source-head", markup=False)
        yield TextView(self.subject, LocalText(""))

    def on_mount(self) -> None:
        self.reload()

    def take_focus(self) -> None:
        self.query_one(TextView).focus()

    def reload(self) -> None:
        read = partial(self.subject.client.source, self.subject.path)
        self.fetcher.run("source", read, self._show, self.fail)

    def _show(self, source: SourceCode) -> None:
        """Show the source, and above it the signature, the file and the docstring.

        Texts of the object may be hostile, so they are shown without control characters.
        """
        doc = plain(source.doc).strip()
        parts = []
        if source.signature:
            parts.append(Content.styled(plain(source.signature), "bold"))
        if source.where:
            parts.append(Content.styled(plain(source.where), "$muted"))
        # Without source, the docstring is the text below.
        if source.source and doc:
            doc_lines = doc.splitlines()
            visible_lines = ["", *doc_lines[:MAX_DOC_LINES]]
            if len(doc_lines) > MAX_DOC_LINES:
                visible_lines.append("…")
            parts.append(Content("\n".join(visible_lines)))
        self.query_one(".source-head", Static).update(Content("\n").join(parts))
        text_view = self.query_one(TextView)
        if source.source:
            text_view.show(LocalText(source.source, source.line), "python")
        else:
            text_view.show(LocalText(doc or "No source was found, and there is no docstring."))
