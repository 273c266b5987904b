"""The form in which agents get results."""

from __future__ import annotations

from mahtab_tui.mcp.output_form import ResultForm

RED = "\x1b[31mred\x1b[0m"


def test_plain_has_neither_colours_nor_blocks() -> None:
    form = ResultForm()
    assert form.write("stdout", f"{RED}\n") == "red"
    assert form.write("value", "") == ""


def test_markdown_has_blocks_that_the_text_cannot_close() -> None:
    assert ResultForm("markdown").write("value", "[1]\n") == "```\n[1]\n```"
    assert ResultForm("markdown", highlight=True).write("value", "[1]") == "```python\n[1]\n```"
    assert ResultForm("markdown", highlight=True).write("traceback", "E") == "```pytb\nE\n```"
    assert ResultForm("markdown").write("stdout", "```\nx") == "````\n```\nx\n````"


def test_ansi_keeps_colours_and_nothing_else() -> None:
    form = ResultForm("ansi")
    written = form.write("stdout", f"{RED} \x1b[2J\x1b]52;c;x\x07")
    assert written.startswith(RED)
    assert "\x1b[2J" not in written
    assert "\x1b]" not in written
    assert form.write("value", "[1]") == "[1]"


def test_ansi_colours_what_has_no_colours() -> None:
    form = ResultForm("ansi", highlight=True)
    assert "\x1b[" in form.write("value", "{'a': 1}")
    assert "\x1b[" in form.write("traceback", "Traceback (most recent call last):\nValueError: no")
    assert form.write("stdout", "{'a': 1}") == "{'a': 1}"
