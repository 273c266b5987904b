"""Renders a notebook as a web page that loads and runs nothing."""

from __future__ import annotations

import re
from typing import Any

from mahtab_tui.export.markdown import SAFE_SCHEMES, make_inert
from mahtab_tui.export.selection import NothingToExport

MAX_TAGS = 5_000
MAX_MARKUP_CHARS = 200_000
"""Longer values are left out of pages: nested tags take quadratic time."""
ALLOWED_TAGS = frozenset(
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i li ol p pre span strong summary table tbody td tfoot th thead tr ul".split()
)
PAGE_TEMPLATE = """{%- extends 'lab/index.html.j2' -%}
{% block html_head_js %}<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">{% endblock %}
{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
"""
"""JupyterLab's template without its scripts."""
_STYLES = re.compile(r"<style\b.*?(?:</style\s*>|\Z)", re.IGNORECASE | re.DOTALL)


def render_page(notebook: Any, title: str) -> str:
    """Return a web page that loads and runs nothing. Raises `NothingToExport`."""
    try:
        from nbconvert import HTMLExporter
    except ImportError:
        raise NothingToExport("A web page needs nbconvert: install mahtab-tui[html].") from None

    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            _make_data_inert(output.get("data", {}))
    exporter = HTMLExporter(
        raw_template=PAGE_TEMPLATE,
        sanitize_html=True,
        exclude_anchor_links=True,
        filters={"clean_html": _sanitize_html},
    )
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title or "A session"}})
    return str(page)


def _make_data_inert(data: dict[str, str]) -> None:
    """Remove long markup from the forms of a value, and make its Markdown inert."""
    for mime in ("text/html", "text/markdown"):
        markup = data.get(mime, "")
        if markup.count("<") > MAX_TAGS or len(markup) > MAX_MARKUP_CHARS:
            del data[mime]
    if "text/markdown" in data:
        data["text/markdown"] = make_inert(data["text/markdown"])


def _sanitize_html(html: object) -> str:
    """Remove all that a browser would load or run; nbconvert's filter shows most tags as text."""
    import bleach

    cell_spans = ["colspan", "rowspan"]
    attributes = {"*": ["class"], "a": ["href"], "td": cell_spans, "th": cell_spans}
    return str(
        bleach.clean(
            _STYLES.sub("", str(html)),
            tags=ALLOWED_TAGS,
            attributes=attributes,
            protocols=SAFE_SCHEMES,
        )
    )
