"""A command between host and remote machine that delays, freezes or cuts the connection."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

_PIECE = 16_384


def main(folder: Path, command: list[str]) -> None:
    """Forward data until one side ends, or a file in the folder orders a cut."""
    if (folder / "refuse").exists():
        print("the machine cannot be reached", file=sys.stderr)
        raise SystemExit(255)
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None
    assert child.stdout is not None
    (folder / f"pid-{os.getpid()}").touch()
    frozen = folder / f"freeze-{os.getpid()}"
    half = folder / f"half-{os.getpid()}"
    delay = float((folder / "delay").read_text()) / 1000 if (folder / "delay").exists() else 0.0

    def carry(source: int, target: int) -> None:
        waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def deliver() -> None:
            while True:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                while frozen.exists():
                    time.sleep(0.05)
                if half.exists() and len(data) > 1:
                    os.write(target, data[: len(data) // 2])
                    os._exit(1)
                view = memoryview(data)
                while view:
                    try:
                        view = view[os.write(target, view) :]
                    except OSError:
                        os._exit(1)
                if not data:
                    os._exit(0)

        threading.Thread(target=deliver, daemon=True).start()
        while data := os.read(source, _PIECE):
            waiting.put((time.monotonic() + delay, data))
        waiting.put((0.0, b""))

    threading.Thread(target=carry, args=(0, child.stdin.fileno()), daemon=True).start()
    threading.Thread(target=carry, args=(child.stdout.fileno(), 1), daemon=True).start()
    cut = folder / f"cut-{os.getpid()}"
    while not cut.exists():
        time.sleep(0.02)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
