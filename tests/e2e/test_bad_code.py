"""Code that misbehaves: the screen stays whole, the session goes on, and what was typed meanwhile
is not lost."""

from __future__ import annotations

from tests.e2e.conftest import Start
from tests.e2e.test_bad_answers import is_whole

BAD = {
    "for i in range(1_000_000): print('line', i)\n": r"▌ line 999998\s(?s:.*)▌ line 999999\s",
    "import os; os.close(1); os.close(2)\nprint('printed')": "▌ printed ",
    "class Bad:\n    def __repr__(self): raise RuntimeError('no ' + 'repr')\n\nbad = Bad(); bad": "RuntimeError: no repr",
    "print = 5; __import__('sys').stdout.write('by ' + 'hand')": "▌ by hand",
    "import sys, threading\nthreading.Timer(0.5, sys.stdout.write, ['much ' + 'later\\n']).start()": "▌ much later",
    "import os\npid = os.fork()\nif pid == 0: __import__('sys').stdout.write('a ' + 'child\\n')\nelse: os.waitpid(pid, 0)\n": "▌ a child",
    "import sys; sys.exit('gone ' + 'away')": "SystemExit: gone away",
    "import sys, io; sys.stdout = io.StringIO(); sys.stdout.write('lost'); 'still ' + 'here'": "▌ 'still here'",
    "del __builtins__; 'built ' 'in'": "▌ 'built in'",
    "import builtins; builtins.__dict__.clear()": "NameError",
    "import signal; [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)]; 'deaf ' 'now'": "▌ 'deaf now'",
    "import asyncio\nasync def main():\n    return 'it ' + 'ran'\n\nasyncio.run(main())": "▌ 'it ran'",
    "import os; os.write(1, b'\\x1b]52;c;aGk=\\x07\\x1b[2J\\x1b]2;mine\\x07'); 'quiet ' 'end'": "▌ 'quiet end'",
    "import subprocess; subprocess.run(['sh', '-c', 'echo from a $0 > /dev/tty || echo no-$0'])": "▌ no-sh",
}
"""Code, and what of it is to be seen."""


def test_session_survives_bad_code(start: Start) -> None:
    screen = start(columns=80, lines=24)
    screen.wait("kernel .*idle")
    before = len(screen.raw)
    for number, (code, seen) in enumerate(BAD.items()):
        screen.paste(code)
        screen.wait("❯ [a-z]")
        screen.press("enter")
        # Entered while the code runs, or just after it.
        screen.enter(f"'typed', {number} * 7")
        screen.wait(seen)
        screen.wait(rf"▌ \('typed', {number * 7}\)")
        # It has ended: what runs stays when the transcript is cleared.
        screen.wait(rf"you +<?[\d.]+ s [^\n]*\n ▌ 'typed', {number} \* 7")
        assert is_whole(screen)
        screen.resize(*((200, 50) if number % 2 else (80, 24)))
        screen.press("ctrl+l")
        screen.wait_gone(r"▌ \('typed'")
    drawn = bytes(screen.raw[before:])
    assert b"\x1b]" not in drawn
    assert b"\x07" not in drawn


def test_loop_can_be_stopped_after_code_that_ignores_sigint(start: Start) -> None:
    screen = start()
    screen.wait("kernel .*idle")
    screen.enter("import signal; previous = signal.signal(signal.SIGINT, signal.SIG_IGN)")
    screen.wait(r"previous +\w+")
    screen.enter("while True: pass")
    screen.press("enter")
    screen.wait("busy")
    screen.press("escape")
    screen.wait("KeyboardInterrupt")
