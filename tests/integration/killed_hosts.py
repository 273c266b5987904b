"""A program that kills hosts of one kernel in the middle of a cell, and checks that no output was
lost."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from mahtab_tui.kernel.detached import stop, waiting_kernels
from mahtab_tui.kernel.remote.process import noted_kernels, stop_remote
from mahtab_tui.kernel.remote.transport import parse
from tests.integration.detached import ELSEWHERE, SESSION, Screen, no_answer

CELL = """
import sys, time, pathlib
n = 0
while not pathlib.Path("enough").exists():
    sys.stdout.write(f"{n}\\n")
    n += 1
    if n % 500 == 0: time.sleep(0.002)
print("the end")
"""


def host(again: bool, seconds: float) -> None:
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    screen = Screen(again=again)
    if again:
        screen.go_on(1)
    else:
        screen.begin(1, CELL)
    time.sleep(60)


def main(times: int) -> None:
    for number in range(times):
        child = os.fork()
        if child == 0:
            host(number > 0, random.uniform(0.02, 0.25) + (0.5 + bool(ELSEWHERE)) * (number == 0))
        os.waitpid(child, 0)
    Path("enough").touch()
    screen = Screen(again=True)
    result = screen.go_on(1)
    assert result is not None
    lines = result.output.splitlines()
    assert lines == [*map(str, range(len(lines) - 1)), "the end"], "lines are lost or repeated"
    assert "".join(screen.printed) == result.output
    assert screen.run(2, "n").output == f"{len(lines) - 1}\n"
    screen.kernel.close()
    print(f"{times} hosts were killed, {len(lines) - 1} lines are there")


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    ELSEWHERE.extend(map(parse, sys.argv[3:]))
    try:
        main(int(sys.argv[1]))
    finally:
        for kernel in waiting_kernels(SESSION):
            stop(kernel)
        for noted in noted_kernels(SESSION):
            stop_remote(noted, no_answer)
        os._exit(0 if sys.exc_info()[0] is None else 1)
