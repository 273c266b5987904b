"""An agent of another program, of which all messages are written to a file, as a line each: who has
sent it, and the message."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO

FILE, *COMMAND = sys.argv[1:]
lock = threading.Lock()


def copy(sender: str, source: IO[bytes], target: IO[bytes]) -> None:
    """Pass messages on until there are no more. sender: "client" or "agent"."""
    for line in source:
        with lock, open(FILE, "a") as file:
            file.write(json.dumps({"sender": sender, "message": json.loads(line)}) + "\n")
        target.write(line)
        target.flush()
    target.close()


agent = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert agent.stdin is not None
assert agent.stdout is not None
threading.Thread(target=copy, args=("client", sys.stdin.buffer, agent.stdin), daemon=True).start()
copy("agent", agent.stdout, sys.stdout.buffer)
sys.exit(agent.wait())
