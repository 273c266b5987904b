"""Fifty notebooks, made with nbformat: every kind of output, other tools' metadata, all minor
versions, and what only few programs write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

BUNDLES: list[dict[str, Any]] = [
    {"text/plain": "1"},
    {"text/plain": "<Figure>", "image/png": PIXEL},
    {"image/jpeg": "/9j/4AAQ\n"},
    {
        "image/svg+xml": "<svg onload='alert(1)'><script>alert(2)</script></svg>",
        "text/plain": "<svg>",
    },
    {"text/html": "<table><tr><td>1</td></tr></table><script>x()</script>", "text/plain": "1"},
    {"text/markdown": "**x** [y](javascript:z)"},
    {"text/latex": "$x^2$", "text/plain": "x**2"},
    {"application/json": {"a": [1, 2.5, None, True]}, "text/plain": "{…}"},
    {
        "application/vnd.jupyter.widget-view+json": {
            "model_id": "abc",
            "version_major": 2,
            "version_minor": 0,
        },
        "text/plain": "Slider()",
    },
    {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}},
    {"application/javascript": "alert(1)"},
    {"application/pdf": "JVBERi0="},
]
STREAMS = [
    "a\n",
    "two\nlines\n",
    "\x1b[31mred\x1b[0m\n",
    "\x1b]0;title\x07\x1b[2J",
    "10%\r20%\r",
    "日本語 🎉 ́\n",
    "",
    "no end",
    "x" * 10_000,
    "\u2028\u200b",
]
METADATA: list[dict[str, Any]] = [
    {"tags": ["parameters"]},
    {"collapsed": True, "scrolled": "auto"},
    {"vscode": {"languageId": "python"}},
    {"jupyter": {"source_hidden": True, "outputs_hidden": True}},
    {"slideshow": {"slide_type": "slide"}},
    {"papermill": {"duration": 0.5, "exception": None}},
    {"colab": {"base_uri": "https://localhost/"}, "id": "x1", "outputId": "y"},
    {"deletable": False, "editable": False},
    {"mahtab": {"by": "model", "name": "demo"}},
    {"execution": {"iopub.status.busy": "2024-01-01T00:00:00Z"}},
]
SOURCES = [
    "x = 1",
    "x = 1\n",
    "\nx",
    "",
    "%time x",
    "def f():\n\tpass\n\n\n",
    "'日本語' # 🎉",
    "raw ``` text",
    "'\\ud800'",
    "a" * 5_000,
]


def notebooks() -> Iterator[Any]:
    """All fifty, as `NotebookNode`s."""
    yield new_notebook()
    yield new_notebook(
        metadata={
            "widgets": {
                "application/vnd.jupyter.widget-state+json": {
                    "state": {"abc": {}},
                    "version_major": 2,
                }
            }
        }
    )
    for bundle in BUNDLES:  # 12
        shown = new_output("display_data", data=bundle, metadata={"image/png": {"width": 5}})
        shown["metadata"]["isolated"] = True
        yield _with(
            new_code_cell(
                "show()",
                execution_count=3,
                outputs=[shown, new_output("execute_result", data=bundle, execution_count=3)],
            )
        )
    for text in STREAMS:  # 10
        streams = [
            new_output("stream", name="stdout", text=text),
            new_output("stream", name="stderr", text=text),
        ]
        yield _with(new_code_cell("print()", outputs=streams))
    for metadata in METADATA:  # 10
        cells = [
            new_code_cell("x = 1", metadata=metadata),
            new_markdown_cell("# x", metadata=metadata),
            new_raw_cell("x", metadata=metadata),
        ]
        yield new_notebook(
            cells=cells,
            metadata={
                "kernelspec": {"name": "ir", "display_name": "R", "language": "R"},
                **metadata,
            },
        )
    for minor in range(6):
        cells = [
            new_code_cell("x = 1", outputs=[new_output("stream", text="1\n")]),
            new_markdown_cell("x"),
        ]
        for cell in cells if minor < 5 else ():
            del cell["id"]
        yield nbformat.from_dict(
            {
                "nbformat": 4,
                "nbformat_minor": minor,
                "metadata": {"orig_nbformat": 2},
                "cells": cells,
            }
        )
    for sources in (SOURCES[:5], SOURCES[5:]):
        yield _with(
            *(
                cell
                for source in sources
                for cell in (new_code_cell(source), new_markdown_cell(source), new_raw_cell(source))
            )
        )
    yield _with(
        new_markdown_cell("![p](attachment:p.png)", attachments={"p.png": {"image/png": PIXEL}}),
        new_raw_cell("r", attachments={}),
    )
    error = new_output(
        "error", ename="E", evalue="v\x1b[2J", traceback=["\x1b[31mTraceback\x1b[0m", "E: v"]
    )
    yield _with(
        new_code_cell(
            "1/0", outputs=[error, new_output("error", ename="", evalue="", traceback=[])]
        )
    )
    updated = nbformat.from_dict(
        {**new_output("display_data", data={"text/plain": "0"}), "transient": {"display_id": "d1"}}
    )
    updating = new_code_cell("update()")
    updating["outputs"] = [updated]
    yield _with_odd(updating)
    yield _with(
        *(new_code_cell(f"x{number} = {number}", execution_count=number) for number in range(300))
    )
    yield _with(
        new_code_cell(
            "many()", outputs=[new_output("stream", text=f"{number}\n") for number in range(500)]
        )
    )
    yield new_notebook(
        cells=[new_code_cell("x")],
        metadata={
            "unknown": {"deep": [[[[{"a": None}]]]]},
            "title": "t",
            "authors": [{"name": "n"}],
        },
    )
    odd = _with_odd(
        new_code_cell("x", outputs=[new_output("display_data", data={"text/plain": "1"})])
    )
    odd["cells"][0]["outputs"][0]["data"]["application/x-unknown"] = "zzz"
    odd["unknown_of_the_notebook"] = 1.0
    odd["cells"][0]["unknown_of_the_cell"] = [1, "2"]
    yield odd
    yield _with(new_code_cell("x", metadata={"n": 10**25, "f": 1e-300, "e": 0.1, "t": True}))


def _with(*cells: Any) -> Any:
    return new_notebook(
        cells=list(cells),
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )


def text_of(notebook: Any, layout: int = 0) -> str:
    """The text of a notebook as Jupyter writes it, or as other programs lay it out."""
    if layout == 0:
        return str(nbformat.writes(notebook)) + "\n"
    if layout == 1:
        return json.dumps(notebook, indent=2)
    return json.dumps(notebook)


def write(notebook: Any, path: Path, layout: int = 0) -> Path:
    path.write_text(text_of(notebook, layout), "utf-8")
    return path


def _with_odd(*cells: Any) -> Any:
    return nbformat.from_dict(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}
    )
