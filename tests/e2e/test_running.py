"""While cells run: progress bars, the debugger, pasted blocks; quitting."""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import Start, in_two_sizes

BAR = "import time\nfrom tqdm import tqdm\nfor i in tqdm(range(40), mininterval=0):\n    time.sleep(0.01)\n"
FUNCTION = "def f(a):\n    b = a + 1\n    breakpoint()\n    c = b * 2\n    return c\n"


@pytest.mark.sample(1)
@in_two_sizes
def test_a_progress_bar_rewrites_its_line(start: Start, size: tuple[int, int]) -> None:
    screen = start(size=size).idle()
    screen.paste(BAR, "sleep")
    screen.press("enter", pattern=r"100%\|.*40/40")
    screen.idle()
    assert len(re.findall(r"\d+%\|", screen.text)) == 1


@pytest.mark.sample(1)
@in_two_sizes
def test_debugger_works_through_the_input_line(start: Start, size: tuple[int, int]) -> None:
    screen = start(size=size).idle()
    screen.paste(FUNCTION, "return c")
    screen.press("enter", pattern="f function")
    screen.enter("f(20)", r"-> +\d+ +c = b \* 2(?s:.*)\(Pdb\) Enter answers")
    answers = r"(?s:.*)\(Pdb\) Enter answers"
    screen.enter("p b", rf"\(Pdb\) p b\s+│?[ \n]*▌ 21{answers}")
    screen.enter("n", rf"-> +\d+ +return c{answers}")
    screen.enter("p c * 100", rf"4200{answers}")
    screen.enter("c")
    screen.idle()
    screen.wait(r"▌ 42 ")
    screen.enter("f(30)", r"f\(30\)(?s:.*)-> +\d+ +c = b \* 2(?s:.*)\(Pdb\) Enter answers")
    screen.enter("q")
    screen.idle()
    screen.wait_gone("Enter answers")
    assert "Traceback" not in screen.text
    screen.enter("'still ' + 'here'", "▌ 'still here'")


def test_pasted_block_is_inserted_whole_and_runs_only_on_enter(start: Start) -> None:
    screen = start(size=(80, 24)).idle()
    screen.paste(
        "a = 20\r\nprint('ran', a)\r\n\r\nif a:\r\n    b = a + 1\r\n\r\nprint('both', a + b)\r\n",
        r"❯ a = 20(?s:.*)print\('both', a \+ b\)",
    )
    assert "In 1" not in screen.text
    screen.press("enter", pattern=r"▌ ran 20\s+▌ both 41")
    screen.wait(r"\+ a int 20 +\+ b int 21")
    assert "In 2" not in screen.text


def test_quitting_names_the_session_and_how_to_resume_it(start: Start) -> None:
    screen = start("--set", "keep_namespace=false", size=(80, 24)).idle()
    screen.enter("kept = 'this'", r"\+ kept str 'this'")
    screen.press("ctrl+q", pattern="Leave\\? You would lose 1 name of the namespace")
    screen.leave()
    farewell = re.search(
        rb"The conversation of session \S+ \((\w+)\) is saved\.\s+To continue it: (.+)", screen.raw
    )
    assert farewell is not None
    session = farewell[1].decode()
    assert f"mahtab-tui --continue here, or --resume {session}" in farewell[2].decode()
    again = start("--resume", session)
    again.wait("kept = 'this'")
    again.leave()


def test_exit_quits_at_once_with_exit_code_0(start: Start) -> None:
    screen = start().idle()
    screen.enter("x = 1; exit()")
    assert screen.wait_end() == 0
    assert b"Leave?" not in screen.raw


@pytest.mark.sample(1)
@in_two_sizes
def test_code_knows_its_output_width_after_a_resize_and_with_hidden_panes(
    start: Start, size: tuple[int, int]
) -> None:
    screen = start(size=size).idle()
    ruler = "import shutil; print('|' + '-' * (shutil.get_terminal_size().columns - 2) + '{0}|')"
    for number, change in enumerate(("", "resize", "hide")):
        if change == "resize":
            screen.resize(110, 30)
        elif change == "hide":
            screen.press("f3")
        screen.enter(ruler.format(number))
        # One column too many: only the closing bar wraps.
        screen.wait(rf"▌ \|-+{number} [^\n]*\n[^\n]*▌ \| ")
