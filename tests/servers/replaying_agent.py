"""An agent of another program, which says again what was recorded: each message when the client has
sent what it had sent before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ids: dict[Any, Any] = {}
"""The ids of the client's requests by the recorded ones."""
for line in Path(sys.argv[1]).read_text().splitlines():
    sender, message = json.loads(line).values()
    if sender == "client":
        received = json.loads(sys.stdin.readline())
        if received.get("method") != message.get("method"):
            sys.exit(f"The client has not sent {message.get('method') or 'an answer'}.")
        if "method" in message and "id" in message:
            ids[message["id"]] = received["id"]
    elif sender == "agent":
        if "method" not in message:
            message["id"] = ids[message["id"]]
        print(json.dumps(message), flush=True)
sys.stdin.read()
