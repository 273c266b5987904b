"""Notebooks made with nbformat: outputs, other tools' metadata, minor versions, and rarities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

BUNDLES: list[dict[str, Any]] = [
    {"text/plain": "<Figure>", "image/png": PIXEL},
    {"image/svg+xml": "<svg onload='alert(1)'></svg>", "text/plain": "<svg>"},
    {"text/html": "<table><tr><td>1</td></tr></table><script>x()</script>", "text/plain": "1"},
    {"text/markdown": "**x** [y](javascript:z)"},
    {"application/json": {"a": [1, 2.5, None, True]}, "text/plain": "{…}"},
    {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}},
]
STREAMS = [
    "two\nlines\n",
    "\x1b]0;title\x07\x1b[31mred\x1b[2J",
    "10%\r20%\r",
    "日本語 🎉 ́\n",
    "\u2028",
]
METADATA: list[dict[str, Any]] = [
    {"tags": ["parameters"], "collapsed": True},
    {"papermill": {"duration": 0.5, "exception": None}},
    {"n": 10**25, "f": 1e-300, "e": 0.1, "t": True, "deep": [[[[{"a": None}]]]]},
]
SOURCES = ["x = 1\n", "\nx", "", "%time x", "def f():\n\tpass\n\n", "'日本語' # 🎉", "'\\ud800'"]


def notebooks() -> Iterator[Any]:
    """Yield all as `NotebookNode`s."""
    yield new_notebook()
    for bundle in BUNDLES:
        display_output = new_output(
            "display_data", data=bundle, metadata={"image/png": {"width": 5}}
        )
        result = new_output("execute_result", data=bundle, execution_count=3)
        yield _with(new_code_cell("show()", execution_count=3, outputs=[display_output, result]))
    for text in STREAMS:
        streams = [new_output("stream", name=name, text=text) for name in ("stdout", "stderr")]
        yield _with(new_code_cell("print()", outputs=streams))
    for metadata in METADATA:
        cells = [
            new_code_cell("x = 1", metadata=metadata),
            new_markdown_cell("# x", metadata=metadata),
            new_raw_cell("x", metadata=metadata),
        ]
        yield new_notebook(cells=cells, metadata=metadata)
    for minor in (0, 4, 5):
        code = new_code_cell("x = 1", outputs=[new_output("stream", text="1\n")])
        cells = [code, new_markdown_cell("x")]
        for cell in cells if minor < 5 else ():
            del cell["id"]
        version = {"nbformat": 4, "nbformat_minor": minor}
        yield nbformat.from_dict({**version, "metadata": {}, "cells": cells})
    yield _with(*(new_code_cell(source) for source in SOURCES), *map(new_markdown_cell, SOURCES))
    attached = {"p.png": {"image/png": PIXEL}}
    yield _with(new_markdown_cell("![p](attachment:p.png)", attachments=attached))
    traceback = ["\x1b[31mTraceback\x1b[0m", "E: v"]
    error = new_output("error", ename="E", evalue="v\x1b[2J", traceback=traceback)
    yield _with(new_code_cell("1/0", outputs=[error]))
    stream_outputs = [new_output("stream", text=f"{number}\n") for number in range(500)]
    yield _with(new_code_cell("many()", outputs=stream_outputs))
    odd = _with(new_code_cell("x", outputs=[new_output("display_data", data={"text/plain": "1"})]))
    odd["cells"][0]["outputs"][0]["data"]["application/x-unknown"] = "zzz"
    odd["cells"][0]["outputs"][0]["transient"] = {"display_id": "d1"}
    odd["unknown_of_the_notebook"] = 1.0
    odd["cells"][0]["unknown_of_the_cell"] = [1, "2"]
    yield odd


def _with(*cells: Any) -> Any:
    return new_notebook(cells=list(cells))


def text_of(notebook: Any, layout: int = 0) -> str:
    """Return a notebook's text as Jupyter (0) or other programs (1, 2) write it."""
    if layout == 0:
        return str(nbformat.writes(notebook)) + "\n"
    return json.dumps(notebook, indent=2 if layout == 1 else None)


def write(notebook: Any, path: Path, layout: int = 0) -> Path:
    path.write_text(text_of(notebook, layout), "utf-8")
    return path
