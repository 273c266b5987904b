"""A look inside variables in a real terminal: while a cell runs, and a question about a text that
becomes a search."""

from __future__ import annotations

from tests.e2e.conftest import Start

IDLE = "kernel .*idle"
FRAME = "import pandas as pd; df = pd.DataFrame({'n': range(1_000_000), 'half': [n / 2 for n in range(1_000_000)]})"


def test_table_opens_scrolls_and_sorts_while_a_cell_runs(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter(FRAME)
    screen.wait("1,000,000 × 2")
    screen.wait(IDLE)
    screen.enter("exec('while True: pass')")
    screen.wait("kernel .*busy")
    screen.press("ctrl+o")
    screen.send("n")
    screen.wait("Look inside")
    screen.press("enter")
    screen.wait("row 1 of 1,000,000")
    screen.send("s")
    screen.wait("n ▲")
    screen.send("s")
    screen.wait("n ▼")
    screen.wait("999999")
    screen.press("escape")
    screen.wait("while True: pass")
    screen.press("ctrl+c")
    screen.wait(IDLE)


def test_question_about_a_text_starts_from_its_view(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("log = 'all is well\\n' * 2000 + 'request 77 timeout'")
    screen.wait("log +str")
    screen.press("ctrl+o")
    screen.send("n")
    screen.wait("Look inside")
    screen.press("enter")
    screen.wait("24,018 characters")
    screen.press("ctrl+a")
    screen.wait("ask: about this text")
    screen.enter("which request had a timeout?")
    screen.wait(r"rlm\('which request had a timeout\?', log\)")
    screen.wait("request 77 timeout")
