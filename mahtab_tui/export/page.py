"""Entries as one HTML file that looks like the screen, in light and dark. It loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from mahtab_tui.bus.html_table import HtmlTable, TableCell, numeric_columns, read_table
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.asides import Aside
from mahtab_tui.export.entries import Cell, Entry, Output, Words
from mahtab_tui.export.notebook import by, heading
from mahtab_tui.export.quoting import SCHEMES
from mahtab_tui.export.selection import Selected

_DARK, _LIGHT = "github-dark", "default"
"""Pygments styles."""
_COLOURS = {
    "dark": "--page:#0d1020;--surface:#12162a;--line:#242b47;--text:#cfd6ee;--quiet:#8792b3;--user:#7cc7ff;--model:#c9a6ff;--agent:#8fd6a4;--bad:#f08a8a",
    "light": "--page:#fbfbfe;--surface:#f0f2f9;--line:#d5daea;--text:#1d2338;--quiet:#5b6482;--user:#0a66a8;--model:#7440b8;--agent:#1d7a40;--bad:#b3261e",
}
_STYLE = """
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:2rem 1rem}
h1{font-size:1.3rem}
.entry{border-left:3px solid var(--line);margin:1.2rem 0;padding:0 0 0 1rem}
.user{border-color:var(--user)}.model{border-color:var(--model)}.agent{border-color:var(--agent)}
.about{color:var(--quiet);font-size:.85rem;margin:0 0 .3rem}
.user .about b{color:var(--user)}.model .about b{color:var(--model)}.agent .about b{color:var(--agent)}
.gone{opacity:.55}
summary{cursor:pointer;overflow-wrap:anywhere}
pre{background:var(--surface);margin:.3rem 0;padding:.6rem .8rem;overflow-x:auto;font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.output{border-left:3px solid var(--line);background:none}
.error{color:var(--bad)}
img{max-width:100%;background:#fff}
table{border-collapse:collapse;font:13px/1.4 ui-monospace,monospace;display:block;overflow-x:auto}
th,td{padding:.15rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:pre}
.words{text-align:left}
a{color:inherit}
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(selected: Selected) -> str:
    title = escape(selected.title or "A session")
    body = "\n".join(_entry(entry, selected) for entry in selected.entries)
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{_styles()}</style></head>\n<body><main>\n<h1>{title}</h1>\n{body}\n</main></body></html>\n"
    )


def _styles() -> str:
    light, dark = (HtmlFormatter(style=style).get_style_defs(".code") for style in (_LIGHT, _DARK))
    ours = f":root{{{_COLOURS['light']}}}\n{_STYLE}\n{light}\n@media (prefers-color-scheme:dark){{:root{{{_COLOURS['dark']}}}\n{dark}\n}}"
    return f"{ours}\n.code{{background:var(--surface)}}\n.code .err{{border:none}}"


def _entry(entry: Entry, selected: Selected) -> str:
    gone = selected.is_hidden(entry) or (isinstance(entry, Cell) and entry.undone)
    return f'<div class="entry {by(entry)}{" gone" if gone else ""}">{"".join(_parts(entry, selected))}</div>'


def _parts(entry: Entry, selected: Selected) -> Iterator[str]:
    hidden = " · hidden from the model" if selected.is_hidden(entry) else ""
    if isinstance(entry, Aside):
        yield _aside(entry, selected)
    elif isinstance(entry, Words):
        cost = selected.costs.get(entry.turn or 0) if entry.kind == "question" else None
        said = f" · ${cost:.4f}" if cost else ""
        yield _about(heading(entry), f"{' · this code did not run' if entry.kind == 'code' else ''}{said}{hidden}")
        yield _code(entry.text) if entry.kind == "code" else _markdown(entry.text)
    elif selected.is_private(entry):
        yield _about(f"In [{entry.number}]", " · This cell uses a private variable, so it is left out.")
    else:
        seconds = "" if entry.duration is None else f" · {entry.duration:.2f} s"
        ended = "" if entry.status in ("ok", "") else f" · {entry.status}"
        yield _about(f"In [{entry.number}]", f" · {entry.party}{seconds}{ended}{' · undone' if entry.undone else ''}{hidden}")
        yield _code(entry.code)
        for output in selected.outputs(entry):
            yield _output(output)


def _aside(aside: Aside, selected: Selected) -> str:
    title = escape(plain(aside.title))
    if not aside.calls:
        return f'<p class="about">{title}</p>'
    drawn = {"line": lambda text: _about(text, ""), "code": _code, "text": _text, "output": _text}
    return f'<details><summary class="about">{title}</summary>{"".join(drawn[kind](text) for kind, text in selected.parts(aside))}</details>'


def _text(text: str, kind: str = "") -> str:
    return f'<pre class="output{kind}">{escape(plain(text.rstrip(chr(10))))}</pre>'


def _about(bold: str, more: str) -> str:
    return f'<p class="about"><b>{escape(plain(bold))}</b>{escape(plain(more))}</p>'


def _code(code: str) -> str:
    text: str = highlight(plain(code), PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return f'<pre class="code">{text}</pre>'


def _output(output: Output) -> str:
    if output.mime.startswith("image/"):
        return f'<img alt="picture" src="data:{escape(output.mime)};base64,{escape(output.data)}">'
    if output.mime == "text/markdown":
        return _markdown(output.data)
    if output.mime == "text/html" and (table := read_table(output.data)) is not None:
        return _table(table)
    return _text(output.text, " error" if output.kind == "traceback" else "")


def _table(table: HtmlTable) -> str:
    numeric = numeric_columns(table.body)

    def cell(column: int, each: TableCell) -> str:
        tag, aligned = "th" if each.heading else "td", "" if column < len(numeric) and numeric[column] else ' class="words"'
        return f"<{tag}{aligned}>{escape(each.text)}</{tag}>"

    def row(cells: Sequence[TableCell]) -> str:
        return f"<tr>{''.join(cell(*each) for each in enumerate(cells))}</tr>"

    notes = "".join(f'<p class="about">{escape(note)}</p>' for note in table.notes)
    return f"<table><thead>{''.join(map(row, table.header))}</thead><tbody>{''.join(map(row, table.body))}</tbody></table>{notes}"


class _Renderer(RendererHTML):
    """Draws Markdown without anything that a browser would load or run."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A picture from elsewhere is its description."""
        return f"[{escape(tokens[idx].content) or 'picture'}]"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<pre>{escape(tokens[idx].content)}</pre>"


def _markdown(text: str) -> str:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}, renderer_cls=_Renderer).enable("table")
    parser.validateLink = _may_be_linked  # type: ignore[method-assign]
    drawn: str = parser.render(plain(text))
    return drawn.replace("<a href=", '<a rel="noopener noreferrer nofollow" href=')


def _may_be_linked(url: str) -> bool:
    try:
        return urlsplit(url.strip()).scheme.lower() in SCHEMES
    except ValueError:
        return False
