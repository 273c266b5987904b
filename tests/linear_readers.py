"""Gives hostile texts of 70,000 characters to each reader of external text."""

from __future__ import annotations

import contextlib
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

LENGTH = 70_000
"""Characters. A linear reader takes at most four seconds; a quadratic one 2,500,000,000 steps."""
SECONDS = 20
"""CPU seconds after which a reader is ended, and the program with it."""

PIECES = {
    "letters": "a",
    "shell commands": "!ls\n",
    "shell commands in brackets": "(\n!ls\n",
    "braces": "{a ",
    "blanks": " ",
    "line ends": "\n",
    "returns": "\r",
    "returns and letters": "a\r",
    "backspaces": "a\b",
    "escapes": "\x1b",
    "cursor up": "\x1b[A",
    "cursor up and down": "a\x1b[A\n",
    "cursor to the right": "\x1b[999C.",
    "erased screens": "x\n\x1b[2J",
    "combining characters": "\u0301\x1b[K",
    "saved cursors": "\x1b7\n\x1b8",
    "strings of a terminal": "\x1b]",
    "application strings": "\x1b_a\n",
    "colours": "\x1b[31m",
    "tags": "<search-text ",
    "ends of tags": "</assistant-repl-in ",
    "brackets": "<",
    "ampersands": "&amp;",
    "fences": "```python\n",
    "docstrings": '"""\\',
    "quotes": "'",
    "quotations": "> ",
    "thoughts": "<think>",
    "lists": "1. ",
    "backslashes": "\\",
    "brackets of code": "(",
    "line numbers": "line 1 and ",
    "numbers": "1,234 ",
    "quoted values": "'A b\" ",
    "nested tables": "<td rowspan=9><table><tr>",
    "declared encodings": "coding:",
    "spanning cells": "<tr><td colspan=999 rowspan=999>",
}


def make_readers() -> dict[str, Callable[[str], object]]:
    from mahtab_tui.bus.answer_splitter import AnswerSplitter
    from mahtab_tui.bus.code_inputs import find_inputs
    from mahtab_tui.bus.empty_answers import names_no_value
    from mahtab_tui.bus.figure_sources import FigureSource
    from mahtab_tui.bus.figures import find_figures
    from mahtab_tui.bus.html_table import read_table
    from mahtab_tui.bus.output import OutputBuffer
    from mahtab_tui.bus.sanitize import plain
    from mahtab_tui.bus.sgr import styled
    from mahtab_tui.bus.terminal_screen import collapse
    from mahtab_tui.export.line_merge import MAX_COMPARED_LINES, preserve_lines
    from mahtab_tui.export.merging import render_text
    from mahtab_tui.export.reading import HEADER, read_notebook
    from mahtab_tui.kernel.terminal_output import TerminalOutput
    from mahtab_tui.sandbox.searched_text import SearchedText, without_surrogates
    from mahtab_tui.search.answer_code import extract_code, last_answer
    from mahtab_tui.search.prompts import plain_message
    from mahtab_tui.search.query_lines import find_query_lines
    from mahtab_tui.search.requests import read_call, read_final
    from mahtab_tui.search.sub_answers import SubAnswers
    from mahtab_tui.worker.completion.complete import complete
    from mahtab_tui.worker.link.frames import FrameReader, encode
    from mahtab_tui.worker.magic.expansion import Names, expand_command
    from mahtab_tui.worker.magic.syntax import transform
    from mahtab_tui.worker.sandbox.evidence import EvidenceFinder
    from mahtab_tui.worker.sandbox.pieces import Part
    from mahtab_tui.worker.tools.text_tools import partition_spans

    def printed(text: str) -> None:
        output = TerminalOutput()
        buffer = OutputBuffer()
        for start in range(0, len(text), 8_192):
            output.add("stdout", text[start : start + 8_192])
            buffer.feed("stdout", text[start : start + 8_192])
        output.text()

    def streamed_answer(text: str) -> None:
        splitter = AnswerSplitter()
        for start in range(0, len(text), 10_000):
            list(splitter.feed(text[start : start + 10_000]))
        list(splitter.end())

    def frame(text: str) -> None:
        data = encode({"op": "x", "text": text + "\ud800"})
        reader = FrameReader(max_structure_bytes=1_000)
        for start in range(0, len(data), 65_536):
            for message in reader.feed(data[start : start + 65_536]):
                without_surrogates(message)

    def requests(text: str) -> None:
        root = SearchedText.root(text)
        read_call("rlm", {"query": "q", "parts": [{"text": text}], "map": False}, root)
        read_final({"text": text, "spans": [[0, 1]] * LENGTH}, root, len(text))

    def evidence(text: str) -> None:
        finder = EvidenceFinder(text)
        starts = range(0, 30_000, 30)
        finder.remember([Part(text[offset : offset + 30], offset) for offset in starts])
        finder.find(text, text, True)
        finder.find_runs(text)

    def evidence_of_sub_calls(text: str) -> None:
        answers = SubAnswers(SearchedText.root(text))
        for start in range(0, LENGTH, 100):
            answers.add(text[start : start + 100], (), [(0, LENGTH)])
        answers.evidence(text)

    def query_lines(text: str) -> None:
        find_query_lines(text, text)
        find_query_lines(text[:50], f"head\n{text}", header=True)

    def figures(text: str) -> None:
        find_figures(text, [], "")
        find_figures("12 of 'foo bar' on 2013-01-05 at 10:30", [FigureSource(1, text)], "")

    def derived_figures(text: str) -> None:
        short = FigureSource(2, text[: LENGTH // 10])
        answer = "12.5 % of 317, 3.33 and 407 not in any 9"
        find_figures(answer, [FigureSource(1, text), short, short], text)

    def read_as_cells(text: str, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(text, "utf-8", errors="replace")
            file = read_notebook(path)
        cell = {"cell_type": "code", "source": "x", "metadata": {}, "outputs": []}
        cells = [*file.cells, {**cell, "execution_count": 1}]
        render_text(file, {**file.content, "cells": cells})

    def preserve_blank_lines(text: str) -> None:
        line = text[:10].replace("\n", ";")
        numbers = range(MAX_COMPARED_LINES // 2)
        original, read_text, new_text = (
            "".join(f"{line}{mark}{number}\n\n" for number in numbers) for mark in "abc"
        )
        preserve_lines(original, read_text, new_text)
        preserve_lines(original, "a\nb\n\n" * 900, "c\nb\nb\n" * 900)

    return {
        "plain text": plain,
        "styled text": lambda text: styled(text[: LENGTH // 10]),
        "plain call": lambda text: plain_message("what?", text),
        "collapsed output": collapse,
        "printed output": printed,
        "code of an answer": extract_code,
        "code in a fence": lambda text: extract_code("```python\n" + text),
        "last answer": last_answer,
        "displayed table": lambda text: read_table(f"<table><tr>{text}"),
        "streamed answer": streamed_answer,
        "frame": frame,
        "requests": requests,
        "evidence": evidence,
        "evidence of sub-calls": evidence_of_sub_calls,
        "lines with words of a query": query_lines,
        "partitions": lambda text: list(partition_spans(text, 5_000)),
        "figures of an answer": figures,
        "derived figures": derived_figures,
        "values that are named": lambda text: names_no_value(text, [text, "8"], text),
        "cells of a script": lambda text: read_as_cells(f"# %%\n{text}", "a.py"),
        "cells of Markdown": lambda text: read_as_cells(f"---\n{text}\n---\n{text}", "a.md"),
        "header of a script": lambda text: HEADER.match(f"#{text * 20}"),
        "lines of a formatted text": preserve_blank_lines,
        "cell with commands": lambda text: transform(f"{text}\n!ls"),
        "names in a cell": lambda text: find_inputs(text[:20_000]),
        "letters of a key": lambda text: complete({"d": {text: 1}}, f"d['{'a' * 30}=", 34),
        "shell command": lambda text: expand_command(text, Names({}, {})),
    }


def limit_time() -> None:
    """Allow this process so many more seconds of CPU time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + SECONDS, hard_limit)
    )


if __name__ == "__main__":
    readers = make_readers()
    for piece in sys.argv[1:]:
        for name, read in readers.items():
            print(f"{name} of {piece}", flush=True)
            limit_time()
            with contextlib.suppress(Exception):  # it may refuse the text
                read(PIECES[piece] * (LENGTH // len(PIECES[piece])))
    print("all have ended")
