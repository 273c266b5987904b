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
ONCE = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
"""The only answer to a question."""
REFUSAL = {"optionId": "no", "name": "No", "kind": "reject_once"}


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


def show_tool(**fields: Any) -> None:
    send(update(sessionUpdate="tool_call", **fields))


def text_part(text: str) -> dict[str, object]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def request(method: str, params: object) -> None:
    """Send a request. All have the same id."""
    send({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})


def ask_permission(
    options: object = ONCE, more: dict[str, object] | None = None, **call: Any
) -> None:
    """Ask whether a tool may run. more: further parameters of the request."""
    call = {"toolCallId": "t", "title": "x", **call}
    params = {"sessionId": "s", "toolCall": call, "options": options, **(more or {})}
    request("session/request_permission", params)


def read_reply() -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(sys.stdin.readline())
    return reply


def answer(message: dict[str, Any], result: object) -> None:
    send({"jsonrpc": "2.0", "id": message["id"], "result": result})


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
    for method in (
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "dance/now",
        "elicitation/create",
        "session/request_permission",
    ):
        params = {"sessionId": "s", "path": "/etc/passwd", "content": "x", "command": "id"}
        request(method, params)
        say("refused " if "error" in read_reply() else "served ")


def escapes() -> None:
    say(f"Words {OUTSIDE}")
    show_tool(
        toolCallId=OUTSIDE,
        title=f"Tool {OUTSIDE}",
        rawInput={OUTSIDE: OUTSIDE},
        status="completed",
        content=[text_part(f"Result {OUTSIDE}")],
    )
    entries = [{"content": OUTSIDE, "priority": "high", "status": "pending"}]
    send(update(sessionUpdate="plan", entries=entries))


def nest(depth: int) -> list[Any]:
    """Return lists in each other."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def broken_texts() -> None:
    """Send texts that cannot be encoded, and numbers that are none."""
    broken = "\ud800"
    say(f"Words {broken}")
    show_tool(
        toolCallId=broken,
        title=broken * 5_000,
        rawInput={broken: broken},
        status="completed",
        content=[text_part(broken)],
    )
    show_tool(toolCallId="deep", title="deep", rawInput=nest(900))
    entries = [{"content": broken, "priority": "high", "status": "pending"}] * 10_000
    send(update(sessionUpdate="plan", entries=entries))
    for amount in (float("nan"), float("inf"), -1.0, 1e300):
        cost = {"amount": amount, "currency": "USD"}
        send(update(sessionUpdate="usage_update", used=1, size=10, cost=cost))
    ask_permission([{**ONCE[0], "name": broken * 1_000}], title=broken)
    read_reply()


def long_numbers() -> None:
    send(update(sessionUpdate="usage_update", used=10**4_000, size=1))


def long_request() -> None:
    """Send a request that is none."""
    request("session/request_permission", {"text": "x" * 1_000_000})
    say(str(len(json.dumps(read_reply()))))


def wide_request() -> None:
    """Ask about a call of many values."""
    ask_permission(rawInput=[[]] * 30_000)
    say(read_reply()["error"]["message"])


def deep_requests() -> None:
    """Ask about calls that are nested about as deeply as can be read."""
    for depth in range(900, 980):
        ask_permission([], rawInput=nest(depth))
    request("dance/now", {})
    while read_reply().get("error", {}).get("message") != "Method not found":
        pass
    say("I have asked.")


def replaced_parameters() -> None:
    """Ask about one tool, and about another one beside the protocol."""
    replaced = {"tool_call": "other", "options": [], "self": 1}
    ask_permission(more={"_meta": replaced, "field_meta": replaced}, title="The tool")
    say(json.dumps(read_reply()))


def unread_replies() -> None:
    """Ask without reading an answer."""
    while True:
        request("dance/now", {})


def crowded_requests() -> None:
    """Ask three questions at once."""
    for number in range(3):
        ask_permission(toolCallId=str(number))
    for _ in range(3):
        read_reply()


def tools() -> None:
    for number in range(5_000):
        show_tool(toolCallId=str(number), title="tool")


def long_results() -> None:
    show_results(20, "in_progress")


def ended_results() -> None:
    show_results(20, "completed")


def show_results(count: int, status: str) -> None:
    content = [text_part("r" * 100_000)]
    for number in range(count):
        show_tool(toolCallId=str(number), title="Look", status=status, content=content)


def long_piece() -> None:
    say("word " * 1_000_000)


def long_diffs() -> None:
    """Change files by a line: a short one, one of many lines, and one of many characters."""
    numbers = "".join(f"{number}\n" for number in range(30_000))
    for old in (numbers[:80], numbers, "x" * 3_000_000):
        change = {"type": "diff", "path": "file", "oldText": old, "newText": f"{old}new"}
        show_tool(toolCallId=f"change {len(old)}", title="Write", kind="edit", content=[change])


def wide_update() -> None:
    entries = [0] * 400_000
    send(update(sessionUpdate="plan", entries=entries))
    say("Still here.")


def marks() -> None:
    """Ask about texts of marks without letters."""
    for count in (250_000, 150_000 - len("# x\na = ")):
        ask_permission([*ONCE, REFUSAL], rawInput={"a": "\u0301" * count})
        outcome = read_reply()["result"]["outcome"]
        say("refused " if outcome.get("optionId") == "no" else "allowed ")


def plans() -> None:
    for number in range(1_000):
        entry = {"content": f"{number} " * 2_000, "priority": "high", "status": "pending"}
        send(update(sessionUpdate="plan", entries=[entry]))


def many_options() -> None:
    """Offer many options, of which some are too long."""
    names = [name for number in range(300) for name in (f"option {number}", f"{number}" * 1_000)]
    options = [{**OPTION, "id": name} for name in names]
    send(update(sessionUpdate="config_option_update", configOptions=options))


def permissions() -> None:
    for number in range(200):
        ask_permission(
            [{**ONCE[0], "name": f"Yes {OUTSIDE}"}],
            toolCallId=f"t{number}",
            title=f"Tool {OUTSIDE}",
        )
    time.sleep(1_000)


def forgotten_permission() -> None:
    """Ask for a permission, and end the answer."""
    ask_permission()
    time.sleep(0.5)


def dying_permission() -> None:
    """Ask for a permission, and die."""
    ask_permission()
    while not Path("go").exists():
        time.sleep(0.01)
    os._exit(3)


def standing_permissions() -> None:
    for _ in range(2):
        ask_permission([{**ONCE[0], "kind": kind} for kind in ("allow_always", "reject_always")])
        say(json.dumps(read_reply()["result"]))


DISGUISES: tuple[dict[str, Any], ...] = (
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
    for call in DISGUISES:
        ask_permission(**call)
        read_reply()
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


def stubborn_and_deaf() -> None:
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
    for _ in range(100):
        show_tool(
            toolCallId="one", title="Look", status="in_progress", content=[text_part("r" * 12_000)]
        )


def renames() -> None:
    for number in range(10_000):
        show_tool(toolCallId="one", title=f"Look {number}", rawInput={"text": "a" * 9_000})


def slow() -> None:
    time.sleep(1)
    say("At last.")


BAD_RESULTS: dict[str, dict[str, object]] = {
    "bad-initialize": {"initialize": [1]},
    "old": {"initialize": {"protocolVersion": 0}},
    "bad-session": {"session/new": {"session": 1}},
    "bad-end": {"session/prompt": {"stopReason": "tired"}},
    "no-end": {"session/prompt": None},
    "wide-end": {"session/prompt": [0] * 400_000},
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
    "stubborn-at-start": "initialize",
    "hangs-at-resume": "session/resume",
    "hangs-at-option": "session/set_config_option",
}
"""The request that it never answers."""

Path("agent.pid").write_text(str(os.getpid()))
with Path("starts").open("a") as starts:
    print(HOW, file=starts)
if HOW == "dead":
    print(f"cannot start {OUTSIDE}", file=sys.stderr)
    sys.exit(4)
if HOW.startswith("stubborn"):
    signal.signal(signal.SIGTERM, lambda number, frame: Path("terminated").touch())
if HOW.startswith("stubborn") or HOW == "leaves-a-child":
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 1000"])
    Path("child.pid").write_text(str(child.pid))
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if DEADLY.get(HOW) == method:
        sys.exit(9)
    if ENDLESS.get(HOW) == method:
        time.sleep(1_000)
    if method == "session/prompt" and HOW in globals():
        globals()[HOW]()
    if "id" in message and method is not None:
        answer(message, RESULTS[method])
    if method == "session/prompt" and HOW == "leaves-a-child":
        sys.exit()
if HOW == "stubborn":
    time.sleep(1_000)
