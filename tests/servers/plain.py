"""An MCP server over stdin and stdout in plain Python. Arguments: its behaviour, its tools
(JSON)."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What to say"}},
    "required": ["text"],
}
READS = {"readOnlyHint": True}
TOOLS: list[dict[str, Any]] = [
    {"name": "say", "description": "Say a text.\nIt comes back as it is.", "inputSchema": TEXT, "annotations": READS},
    {"name": "write", "description": "Write a text.", "inputSchema": TEXT},
    {"name": "parts", "description": "Return several things.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "fail", "description": "Fail.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "sleep", "description": "Never answer.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "die", "description": "End the server.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "flood", "description": "Return a lot.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "change", "description": "Change the tools.", "inputSchema": {"type": "object"}, "annotations": READS},
    {"name": "add", "description": "Add numbers.", "annotations": READS, "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 1}, "from": {"type": "string"}},
        "required": ["a"],
    }},
]  # fmt: skip
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(result: str, **fields: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": result}], **fields}


def call(name: str, arguments: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    if name == "parts":
        blob = {"uri": "file:///a", "mimeType": "application/x-thing", "blob": "AAEC"}
        return {
            "content": [
                {"type": "text", "text": '{"n": 1}'},
                {"type": "text", "text": "words"},
                {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                {"type": "resource", "resource": blob},
            ]
        }
    if name == "fail":
        return text("It \x1b[31mfailed\x1b[0m [bold]on purpose[/]", isError=True)
    if name == "die":
        os._exit(3)
    if name == "flood":
        for _ in range(1024):
            sys.stdout.write("x" * 1024 * 1024)
    if name == "add":
        return text("", structuredContent={"result": arguments["a"] + arguments.get("b", 1)})
    if name == "change":
        tools.append({**tools[0], "name": "new"})
        send({"method": "notifications/tools/list_changed"})
    return text(arguments.get("text", "done"))


def main() -> None:
    behaviour = sys.argv[1]
    tools = json.loads(sys.argv[2]) or TOOLS
    print("the server writes to stderr", file=sys.stderr, flush=True)
    if behaviour == "hang":
        time.sleep(1000)
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "exit":
        sys.exit("there is no key")
    if behaviour == "noise":
        print("Welcome to the server!", flush=True)
    listed = False
    for line in sys.stdin:
        message = json.loads(line)
        method = message["method"]
        number = message.get("id")
        if method == "initialize":
            info = {"name": "plain", "version": "1", "title": "A plain \x1b[31mserver"}
            capabilities = {"tools": {"listChanged": True}}
            about = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
            send({"id": number, "result": {**about, "serverInfo": info}})
        elif method == "tools/list" and behaviour == "listed once" and listed:
            send({"id": number, "error": {"code": -32603, "message": "no list"}})
        elif method == "tools/list":
            if behaviour == "listed once":
                send({"method": "notifications/tools/list_changed"})
            listed = True
            send({"id": number, "result": {"tools": tools}})
        elif method == "tools/call":
            name = message["params"]["name"]
            arguments = message["params"].get("arguments", {})
            if behaviour == "raw":
                print(arguments["text"].replace("ID", str(number)), flush=True)
            elif behaviour == "show":
                send({"id": number, "result": text(json.dumps(arguments))})
            elif name != "sleep":
                send({"id": number, "result": call(name, arguments, tools)})
        elif method == "notifications/cancelled":
            print(f"cancelled {message['params']['requestId']}", file=sys.stderr, flush=True)
        elif number is not None:
            send({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})
    if behaviour == "deaf":
        time.sleep(1000)


if __name__ == "__main__":
    main()
