"""The terminal: pictures, other programs, the bell, malformed keys and hostile names."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM as INSTALLED_COMMAND
from tests.e2e.conftest import Replay, Start, in_two_sizes
from tests.e2e.terminal import DEADLINE, Terminal
from tests.hostile import COPIED, HOSTILE

# Pictures use the terminal's own graphics if it reports them.

QUESTION = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[c"
CELL = "\x1b[6;20;10t"
KITTY_KEEPS = rb"\x1b_Ga=t,f=100,"
KITTY_DRAWS = rb"\x1b7\x1b\[\d+;\d+H\x1b_Ga=p,"
SIXEL_DRAWS = rb"\x1b7\x1b\[\d+;\d+H\x1bP0;1;0q"
REMOVED = rb"\x1b_Ga=d,d=[iI],"
CLEARED = rb"\x1b_Ga=d,d=A,"

PROGRAM = """#!/usr/bin/env python3
import pathlib, signal, sys
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
print("\\x1b[2J\\x1b[Hlent to", pathlib.Path(sys.argv[0]).name, *sys.argv[1:], flush=True)
line = sys.stdin.readline()
with open("x.py", "a") as file:
    file.write(line)
sys.exit(3)
"""

AWAY = "\x1b[O"
BACK = "\x1b[I"
"""A terminal's reports that its window lost and got the focus."""

MALFORMED = (
    "\x1b[1114112u",
    "\x1b[57441;1:3u",
    "\x1b[97;5:9u",
    "\x1b[;:u",
    "\x1b[:R",
    "\x1b[55296u",
    "\x1b[48;20;60;0;0t",
    "\x1b[48;0;0;0;0t",
    "\x1b[<NaN;NaN;1M",
)
FIVE_THOUSAND = (
    "\x1b[" * 2_500 + "A",
    "\x1b[I\x1b[O" * 833 + "\x1b[I",
    "\x1b[" + "1:" * 2_500 + "u",
    "\x1bP" + "a" * 5_000 + "\x1b\\",
    "(" * 1_000 + "\x03",
)

_NAMES = [
    text.replace("/", "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    for text in HOSTILE
    if "\x00" not in text
]
_SHOWN = re.compile(rb"\x1b\[[\d;]*[mH]|\r\n|[\t\n]")
_MODES = re.compile(
    rb"\x1b\[\?\d+(?:[hl]|\$p)|\x1b\[>\d+u|\x1b\[<u|\x1b\]22;[a-z]+\x07"  # Textual's
    rb"|\x1b\[16t|\x1b\[c|\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # the questions about graphics
)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]")

_TEXT = "".join(_NAMES)[:2_000]
_COMMANDS = """
config
config --set model=TEXT
config set TEXT TEXT
config unset TEXT
config trust
sessions
skills list
skills show TEXT
doctor
ask TEXT --model demo --approval auto
ask TEXT --model TEXT
rlm TEXT hostile.txt --model demo --max-calls 2
rlm TEXT TEXT --model TEXT
watch TEXT
TEXT
--TEXT
--python TEXT --model demo --query TEXT
"""


def sent(screen: Terminal, pattern: bytes, since: int = 0) -> int:
    """Wait until the program has sent a sequence; return the offset of its end."""
    end = time.monotonic() + DEADLINE
    while not (match := re.compile(pattern).search(screen.raw, since)):
        assert time.monotonic() < end, f"{pattern!r} was not sent"
        screen.pump(0.1)
    return match.end()


def with_picture(start: Start, **env: str) -> Terminal:
    """Start the program with a picture in its transcript."""
    screen = start(env=env)
    screen.wait("Python")
    screen.pump(0.5)
    assert QUESTION not in screen.raw
    screen.enter("from PIL import Image; Image.new('RGB', (30, 20), 'red')", "▀▀▀")
    return screen


def on_the_whole_screen(screen: Terminal) -> Terminal:
    screen.press("ctrl+o")
    screen.type("t", "⏎ Actions")
    screen.press("enter", pattern="Run again")
    screen.press("enter", pattern="Picture of cell 1")
    screen.wait("30 × 20 pixels")
    return screen


def back_in_the_editor(screen: Terminal) -> None:
    """Go back; the input contains only what is typed now."""
    screen.press("escape", pattern="⏎ Actions")
    screen.press("ctrl+o", pattern="e──")
    screen.type("e", "Python / Ask  esc Stop  f8 Approval  .o Jump  f3")
    screen.wait_gone("⏎ Actions")
    screen.enter("'ty' + 'ped'", "▌ 'typed'")
    assert not re.search(r"31;OK|62;4|6;20|\?1;0|NameError|SyntaxError", screen.text)


@pytest.mark.thorough
def test_kitty_graphics_are_used_until_quitting(start: Start) -> None:
    screen = with_picture(start)
    sent(screen, re.escape(QUESTION))
    screen.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62;22c")
    drawn = sent(screen, KITTY_DRAWS, sent(screen, KITTY_KEEPS))
    on_the_whole_screen(screen)
    drawn = sent(screen, KITTY_DRAWS, sent(screen, REMOVED, drawn))
    screen.resize(100, 30)
    drawn = sent(screen, KITTY_DRAWS, sent(screen, REMOVED, drawn))
    screen.wait("s Save")
    screen.press("ctrl+s", pattern="Save to the file")
    removed = sent(screen, REMOVED, drawn)
    screen.press("escape")
    drawn = sent(screen, KITTY_DRAWS, removed)
    back_in_the_editor(screen)
    drawn = sent(screen, KITTY_DRAWS, sent(screen, REMOVED, drawn))
    screen.enter("exit()")
    assert screen.wait_end() == 0
    assert screen.raw.rfind(b"\x1b_Ga=d,d=A,") > screen.raw.rfind(b"\x1b_Ga=p,")
    assert b"\x1bP0" not in screen.raw


@pytest.mark.thorough
def test_sixel_is_used_if_the_terminal_has_it(start: Start) -> None:
    screen = with_picture(start)
    sent(screen, re.escape(QUESTION))
    screen.send(CELL + "\x1b[?1;0;256S\x1b[?62;4c")
    drawn = sent(screen, SIXEL_DRAWS)
    on_the_whole_screen(screen)
    drawn = sent(screen, SIXEL_DRAWS, drawn)
    back_in_the_editor(screen)
    sent(screen, SIXEL_DRAWS, drawn)
    assert b"\x1b_Ga=" not in screen.raw


@pytest.mark.thorough
def test_suspended_program_leaves_nothing_and_resumes_whole(cold_start: Start) -> None:
    screen = with_picture(cold_start)
    sent(screen, re.escape(QUESTION))
    screen.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62;22c")
    drawn = sent(screen, KITTY_DRAWS)
    for _ in range(2):
        os.kill(screen.pid, signal.SIGTSTP)
        left_offset = sent(screen, rb"\x1b\[\?1049l", sent(screen, CLEARED, drawn))
        os.waitid(os.P_PID, screen.pid, os.WSTOPPED)
        screen.screen.reset()
        os.kill(screen.pid, signal.SIGCONT)
        drawn = sent(screen, KITTY_DRAWS, sent(screen, rb"\x1b\[\?1049h", left_offset))
        screen.wait("TRANSCRIPT")
        screen.wait("▀▀▀")
    screen.enter("6 * 7", "▌ 42")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("env", "reply"),
    [
        ({}, ""),
        ({}, CELL + "\x1b[?62;22c"),
        ({}, "\x1b_Gi=31;OK\x1b\\\x1b[?62c"),
        ({"TERM": "tmux-256color"}, None),
        ({"TERM": "screen-256color"}, None),
        ({"MAHTAB_PICTURES": "blocks"}, None),
    ],
)
def test_half_blocks_are_used_without_graphics_support(
    start: Start, env: dict[str, str], reply: str | None
) -> None:
    screen = on_the_whole_screen(with_picture(start, **env))
    back_in_the_editor(screen)
    if reply is not None:
        sent(screen, re.escape(QUESTION))
        screen.send(reply)  # late: where keys would be typed
    screen.enter("'af' + 'ter'", "▌ 'after'")
    assert not re.search(r"31;OK|62;|6;20", screen.text)
    assert (QUESTION in screen.raw) == (reply is not None)
    assert b"\x1b_Ga=" not in screen.raw
    assert b"\x1bP0" not in screen.raw


HOST = """
from mahtab_tui import run_repl
run_repl({}, model="demo")
print("host reads", repr(input("host: ")))
"""


def test_late_answers_are_not_typed_into_the_next_program(project: Path) -> None:
    with Terminal([sys.executable, "-c", HOST], cwd=project) as screen:
        screen.wait("kernel .*idle")
        screen.enter("from PIL import Image; Image.new('RGB', (30, 20), 'red')")
        asked = sent(screen, re.escape(QUESTION))
        screen.press("ctrl+q")
        sent(screen, rb"\x1b\[\?2004l", asked)
        screen.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62;22c")
        screen.wait("host: ")
        screen.send("typed\r", "host reads 'typed'")


# Programs that borrow the terminal.


@pytest.fixture
def path(project: Path) -> str:
    """Return a PATH on which `vim`, `git` and `myedit` print that they have the terminal, and write
    the line that they read into x.py."""
    folder = project / "bin"
    folder.mkdir()
    for name in ("vim", "git", "myedit"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def is_alone(screen: Terminal) -> bool:
    """Return whether the application shows nothing."""
    return not any(word in screen.text for word in ("mahtab", "TRANSCRIPT", "F1"))


@pytest.mark.sample(1)
@in_two_sizes
def test_program_borrows_the_terminal_and_returns_it(
    start: Start, project: Path, path: str, size: tuple[int, int]
) -> None:
    screen = start(size=size, env={"PATH": path, "EDITOR": "myedit", "SHELL": "/bin/sh"}).idle()
    screen.enter("print('shown', 'before')", "shown before")
    codes = {
        "open_in_editor('x.py')": "myedit x.py",
        "!vim x.py": "vim x.py",
        "!git commit -v": "git commit -v",
    }
    for number, (code, program) in enumerate(codes.items(), start=1):
        screen.enter(code, f"lent to {program}")
        assert is_alone(screen)
        screen.enter(f"line {number}", "exit code 3")
        screen.idle()
        screen.enter(f"'went on {number}'", rf"▌ 'went on {number}'(?s:.*)▌ 'went on {number}'")
    assert (project / "x.py").read_text() == "line 1\nline 2\nline 3\n"
    screen.leave()


@pytest.mark.thorough
def test_draft_survives_while_a_program_has_the_terminal(
    start: Start, project: Path, path: str
) -> None:
    screen = start(env={"PATH": path, "SHELL": "/bin/sh"}).idle()
    screen.paste(
        "import os\nwhile not os.path.exists('go'): pass\n__import__('os').system('true')\n",
        "system",
    )
    screen.press("enter", pattern="busy")
    screen.enter("!vim x.py", r"queued.*!vim")
    screen.type("half a thought", "half a thought")
    (project / "go").touch()
    screen.wait("lent to vim")
    assert "half a thought" not in screen.text
    screen.resize(100, 30)
    screen.enter("x", "❯ half a thought")
    screen.wait("exit code 3")
    assert (project / "x.py").read_text() == "x\n"


def test_input_goes_to_the_editor_and_returns(start: Start, project: Path) -> None:
    editor = project / "my editor"
    editor.write_text(
        "#!/usr/bin/env python3\nimport pathlib, sys\nfile = pathlib.Path(sys.argv[1])\nfile.write_text(file.read_text() + ' + 2\\n')\n"
    )
    editor.chmod(0o755)
    screen = start(env={"EDITOR": f"'{editor}'"}).idle()
    screen.type("print(40")
    screen.press("ctrl+g", pattern=r"❯ print\(40 \+ 2")
    screen.enter(")", r"\b42\b")


# The bell calls the user back to an unfocused window.


def bells(screen: Terminal) -> int:
    """Count the bells that are not the end of a sequence."""
    return sum(
        map(bool, re.findall(rb"\x1b\]\d+;[^\x07\x1b]*(?:\x07|\x1b\\)|(\x07)", bytes(screen.raw)))
    )


@pytest.mark.thorough
def test_long_cell_and_waiting_code_ring_when_the_window_is_unfocused(
    start: Start, replay: Replay
) -> None:
    screen = start("--model", replay("```python\nz = 1\n```")).idle()
    screen.send(AWAY)
    screen.enter("'short'", "▌ 'short'(?s:.*)▌ 'short'")
    assert bells(screen) == 0
    # Only cells of over 10 s ring.
    screen.enter("import time; time.sleep(10.01)", "busy")
    screen.wait(r"\+ time module")
    screen.idle()
    assert bells(screen) == 1
    screen.enter("`go", "waits for you")
    assert bells(screen) == 2


# Malformed sequences: the screen survives them and types nothing.


def test_screen_survives_malformed_keys_with_all_variables(start: Start) -> None:
    screen = start()
    screen.enter("kept = 6 * 7", r"kept\s+int")
    for sequence in MALFORMED:
        screen.send(sequence)
    screen.enter("'still', kept", r"▌ \('still', 42\)")
    screen.leave()


@pytest.mark.sample(1)
@pytest.mark.parametrize("sequence", FIVE_THOUSAND, ids=lambda sequence: repr(sequence[:6]))
def test_screen_keeps_reading_after_thousands_of_characters(start: Start, sequence: str) -> None:
    screen = start()
    screen.wait("Python")
    screen.send(sequence)
    screen.send("6 * 7", r"6 \* 7")
    screen.send("\r")  # by itself, or a busy machine would take it for part of a paste
    screen.wait("▌ 42")


# Names and texts of others reach the terminal as text only.


def driven(raw: bytes) -> list[bytes]:
    """Return the control sequences that are not the renderer's."""
    unexpected = _MODES.sub(b"", _SHOWN.sub(b"", re.sub(rb"\x1b[\[\d;?]*\Z", b"", raw)))
    return [
        unexpected[max(0, control.start() - 20) : control.end() + 20]
        for control in _CONTROL.finditer(unexpected)
    ]


def ended(screen: Terminal) -> bytes:
    screen.drawn = False
    while screen.pump(60):
        pass
    return bytes(screen.raw)


@pytest.fixture
def folder(project: Path) -> Path:
    """Create a project whose name, settings, files and skills are hostile."""
    texts = _NAMES
    target = project / "".join(texts[:12])[:60]
    target.mkdir()
    for number, text in enumerate(texts):
        (target / f"{number}{text}"[:100]).write_text(text)
        skill = target / "skills" / f"s{number}"
        skill.mkdir(parents=True)
        skill.joinpath("SKILL.md").write_text(
            f"---\nname: s{number}\ndescription: {json.dumps(text)}\n---\n{text}\n"
        )
    (target / ".mahtab").mkdir()
    joined = json.dumps("".join(texts)).replace("\\u007f", "\\u007F")
    (target / ".mahtab" / "config.toml").write_text(
        f"model = {joined}\nsub_model = {joined}\ntheme = {joined}\n"
    )
    (target / "hostile.txt").write_text("".join(texts))
    return target


@pytest.mark.sample(4)
@pytest.mark.parametrize("line", _COMMANDS.strip().splitlines())
def test_command_prints_hostile_names_as_text(folder: Path, line: str) -> None:
    command = [word.replace("TEXT", _TEXT) for word in line.split()]
    with Terminal(command, cwd=folder, warm=True) as screen:
        screen.send("n\n")  # to what asks
        assert driven(ended(screen).replace(b"\r\x1b[K", b"")) == []


@pytest.mark.thorough
def test_screen_draws_hostile_names_as_text(folder: Path) -> None:
    with Terminal(["--model", "demo"], cwd=folder, columns=200, lines=60, warm=True) as screen:
        screen.wait("Python")
        screen.enter(
            "import os; print(open('hostile.txt', newline='').read()); names = os.listdir(); names",
            "names +list",
        )
        screen.enter("raise ValueError(open('hostile.txt', newline='').read())", "ValueError")
        screen.press("f2")
        for slash in ("/skills", "/settings", "/cd", "/usage"):
            screen.enter(slash)
            screen.pump(0.5)
            screen.send("\x1b[27u")
            screen.pump(0.2)
        raw = bytes(screen.raw)
        assert driven(raw) == []
        assert COPIED.encode() not in b"".join(re.findall(rb"\x1b\][^\x07\x1b]*", raw))


def test_installed_command_filters_its_arguments(project: Path) -> None:
    with Terminal([*INSTALLED_COMMAND, f"\x1b]52;c;{COPIED}\x07"], cwd=project) as screen:
        raw = ended(screen)
    assert b"There is no file, folder or command" in raw
    assert driven(raw) == []


def test_failing_editor_leaves_the_input_unchanged(start: Start) -> None:
    screen = start(env={"EDITOR": "false"}).idle()
    screen.type("print(40")
    screen.press("ctrl+g", pattern="exit code 1")
    screen.wait(r"❯ print\(40")


def test_ctrl_c_in_a_program_goes_to_the_program(start: Start, path: str) -> None:
    screen = start(env={"PATH": path, "SHELL": "/bin/sh"}).idle()
    screen.enter("!vim", "lent to vim")
    screen.press("ctrl+c", pattern="interrupted")
    assert is_alone(screen)
    screen.enter("x", "exit code 3")
    screen.enter("6 * 7", r"\b42\b")


def test_model_named_on_the_command_line_cannot_write_the_clipboard(start: Start) -> None:
    name = f"ollama:\x1b]52;c;{COPIED}\x07x"
    screen = start("--model", name)
    screen.wait("ollama:x")
    assert driven(bytes(screen.raw)) == []
