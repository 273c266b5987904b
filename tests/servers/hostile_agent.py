"""An agent of another program that breaks the protocol. Its argument says how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOW = sys.argv[1]
OUTSIDE = "\x1b]0;title\x07\x1b[2J\u202eevil\x9b31m"


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def update(**fields: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "update": fields}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def say(text: str) -> None:
    content = {"type": "text", "text": text}
    send(update(sessionUpdate="agent_message_chunk", content=content))


def answer(request: dict[str, Any], result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def garbage() -> None:
    for line in (
        "hello",
        "[1, 2]",
        "null",
        "7",
        '"text"',
        "{",
        '{"jsonrpc": "2.0"}',
        "[" * 100_000,
    ):
        write(line)
    send({"jsonrpc": "2.0", "method": ["list"], "params": {}})
    send({"jsonrpc": "2.0", "id": {"a": 1}, "result": {}})
    send({"jsonrpc": "2.0", "id": 999, "result": {}})
    send({"jsonrpc": "2.0", "id": 998, "error": "text"})
    sys.stdout.buffer.write(b"\xff\xfe\x00\n")
    say("Still here.")


def unknown() -> None:
    for fields in ({"sessionUpdate": "dance"}, {}, {"sessionUpdate": "tool_call"}):
        send(update(**fields))
    send({"jsonrpc": "2.0", "method": "session/update", "params": []})
    send({"jsonrpc": "2.0", "method": "dance/now", "params": {}})
    for number, method in enumerate(
        (
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "dance/now",
            "elicitation/create",
        )
    ):
        params = {"sessionId": "s", "path": "/etc/passwd", "content": "x", "command": "id"}
        send({"jsonrpc": "2.0", "id": 100 + number, "method": method, "params": params})
        reply = json.loads(sys.stdin.readline())
        say("refused " if "error" in reply else "served ")
    send({"jsonrpc": "2.0", "id": 200, "method": "session/request_permission", "params": {}})
    say("refused " if "error" in json.loads(sys.stdin.readline()) else "served ")


def escapes() -> None:
    say(f"Words {OUTSIDE}")
    call = {"toolCallId": OUTSIDE, "title": f"Tool {OUTSIDE}", "rawInput": {OUTSIDE: OUTSIDE}}
    content = [{"type": "content", "content": {"type": "text", "text": f"Result {OUTSIDE}"}}]
    send(update(sessionUpdate="tool_call", status="completed", content=content, **call))
    entries = [{"content": OUTSIDE, "priority": "high", "status": "pending"}]
    send(update(sessionUpdate="plan", entries=entries))


def broken_texts() -> None:
    """Send texts that cannot be encoded, and numbers that are none."""
    broken = "\ud800"
    say(f"Words {broken}")
    call = {"toolCallId": broken, "title": broken * 5_000, "rawInput": {broken: broken}}
    content = [{"type": "content", "content": {"type": "text", "text": broken}}]
    send(update(sessionUpdate="tool_call", status="completed", content=content, **call))
    deep: Any = "deep"
    for _ in range(900):
        deep = [deep]
    send(update(sessionUpdate="tool_call", toolCallId="deep", title="deep", rawInput=deep))
    entries = [{"content": broken, "priority": "high", "status": "pending"}] * 10_000
    send(update(sessionUpdate="plan", entries=entries))
    for amount in (float("nan"), float("inf"), -1.0):
        cost = {"amount": amount, "currency": "USD"}
        send(update(sessionUpdate="usage_update", used=1, size=10, cost=cost))
    options = [{"optionId": "yes", "name": broken * 1_000, "kind": "allow_once"}]
    params = {
        "sessionId": "s",
        "toolCall": {"toolCallId": "t", "title": broken},
        "options": options,
    }
    send({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params})
    sys.stdin.readline()


def tools() -> None:
    for number in range(5_000):
        send(update(sessionUpdate="tool_call", toolCallId=str(number), title="tool"))


def permissions() -> None:
    options = [{"optionId": "yes", "name": f"Yes {OUTSIDE}", "kind": "allow_once"}]
    for number in range(200):
        call = {"toolCallId": f"t{number}", "title": f"Tool {OUTSIDE}"}
        params = {"sessionId": "s", "toolCall": call, "options": options}
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "session/request_permission",
                "params": params,
            }
        )

    time.sleep(1_000)


def forgotten_permission() -> None:
    """Ask for a permission, and end the answer."""
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "x"}, "options": options}
    send({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params})
    time.sleep(0.5)


def standing_permission() -> None:
    options = [
        {"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_always", "reject_always")
    ]
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "x"}, "options": options}
    send({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params})
    say(json.dumps(json.loads(sys.stdin.readline())["result"]))


DISGUISES: tuple[dict[str, object], ...] = (
    {"title": "rm -rf / # mcp__mahtab__eval"},
    {"title": "mcp__mahtab__eval; rm -rf /"},
    {"title": "mahtab.eval\nrm"},
    {"title": "mahtab; ./evil"},
    {"title": "`mahtab; ./evil`"},
    {"title": "./mahtab/evil"},
    {"title": "mahtab/eval"},
    {"title": "mahtab-tui"},
    {"title": "mahtab\n./run"},
    {"title": "mcp__mahtab__evil"},
    {"title": "mcp__mahtab__eval", "kind": "execute"},
    {"title": "mcp__mahtab__eval", "_meta": {"claudeCode": {"toolName": "Bash"}}},
    {"title": "mahtab" + "_" * 20_000 + "1"},
)


def disguise() -> None:
    """Ask for permissions whose titles have the name of our own tool in them."""
    for number, call in enumerate(DISGUISES):
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {
            "sessionId": "s",
            "toolCall": {"toolCallId": str(number), **call},
            "options": options,
        }
        send({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params})
        sys.stdin.readline()
    say("I have asked.")


def flood() -> None:
    while True:
        send(update(sessionUpdate="dance"))


def words() -> None:
    while True:
        say("word " * 1_000)


def endless_line() -> None:
    while True:
        sys.stdout.write("x" * 1_000_000)


def deaf() -> None:
    say("I do not listen.")
    time.sleep(1_000)


def crowd() -> None:
    """Leave a child that keeps the pipes open, and end."""
    if os.fork() == 0:
        time.sleep(1_000)
    os._exit(5)


def closed_pipe() -> None:
    """Close the connection, and stay."""
    say("Bye.")
    os.close(1)
    time.sleep(1_000)


def orphan() -> None:
    """Leave a child that goes on talking, and end."""
    if os.fork() == 0:
        while True:
            say("tick ")
            time.sleep(0.1)
    os._exit(5)


def repeats() -> None:
    """Tell again and again of one tool call."""
    result = {"type": "content", "content": {"type": "text", "text": "r" * 12_000}}
    call = {"toolCallId": "one", "title": "Look", "status": "in_progress", "content": [result]}
    for _ in range(100):
        send(update(sessionUpdate="tool_call", **call))


def renames() -> None:
    for number in range(10_000):
        title = f"Look {number}"
        arguments = {"text": "a" * 9_000}
        call = {"toolCallId": "one", "title": title, "rawInput": arguments}
        send(update(sessionUpdate="tool_call", **call))


def slow() -> None:
    time.sleep(1)
    say("At last.")


BAD_RESULTS: dict[str, dict[str, object]] = {
    "bad-initialize": {"initialize": [1]},
    "old": {"initialize": {"protocolVersion": 0}},
    "bad-session": {"session/new": {"session": 1}},
    "bad-end": {"session/prompt": {"stopReason": "tired"}},
    "no-end": {"session/prompt": None},
}
OPTION = {
    "type": "select",
    "id": "size",
    "name": "Size",
    "currentValue": "small",
    "options": [{"value": "small", "name": "small"}, {"value": "large", "name": "large"}],
}
RESULTS = {
    "initialize": {
        "protocolVersion": 1,
        "agentCapabilities": {"sessionCapabilities": {"resume": {}}},
    },
    "session/new": {"sessionId": "s", "configOptions": [OPTION]},
    "session/prompt": {"stopReason": "end_turn"},
    **BAD_RESULTS.get(HOW, {}),
}
DEADLY = {"dies-at-resume": "session/resume", "dies-at-option": "session/set_config_option"}
"""The request at which it ends."""
ENDLESS = {
    "hangs-at-start": "initialize",
    "hangs-at-resume": "session/resume",
    "hangs-at-option": "session/set_config_option",
}
"""The request that it never answers."""

Path("agent.pid").write_text(str(os.getpid()))
if HOW == "dead":
    print(f"cannot start {OUTSIDE}", file=sys.stderr)
    sys.exit(4)
if HOW == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "1000"])
    Path("child.pid").write_text(str(child.pid))
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if DEADLY.get(HOW) == method:
        sys.exit(9)
    if ENDLESS.get(HOW) == method:
        time.sleep(1_000)
    if method == "session/prompt" and HOW in globals():
        globals()[HOW]()
    if "id" in request and method is not None:
        answer(request, RESULTS[method])
if HOW == "stubborn":
    time.sleep(1_000)
