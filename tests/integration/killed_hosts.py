"""A program that kills hosts of one kernel in the middle of a cell, and checks that no output was
lost."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from mahtab_tui.kernel.detached import detached_kernels, stop
from mahtab_tui.kernel.remote.address import parse_address
from mahtab_tui.kernel.remote.attaching import stop_remote
from mahtab_tui.kernel.remote.notes import noted_kernels
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


def begin_and_be_killed(seconds: float) -> None:
    screen = Screen(again=False)
    screen.begin(1, CELL)
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def join_and_be_killed(seconds: float) -> None:
    # Before it joins, so that some hosts are killed while they do.
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    screen = Screen(again=True)
    screen.go_on(1)
    time.sleep(60)


def main(times: int) -> None:
    for number in range(times):
        child = os.fork()
        if child == 0:
            run_host = join_and_be_killed if number else begin_and_be_killed
            run_host(random.uniform(0.02, 0.25))
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
    ELSEWHERE.extend(map(parse_address, sys.argv[3:]))
    try:
        main(int(sys.argv[1]))
    except BaseException:
        # Printed here, because the process ends without its own cleaning up.
        traceback.print_exc()
        raise
    finally:
        for kernel in detached_kernels(SESSION):
            stop(kernel)
        for noted in noted_kernels(SESSION):
            stop_remote(noted, no_answer)
        os._exit(0 if sys.exc_info()[0] is None else 1)
