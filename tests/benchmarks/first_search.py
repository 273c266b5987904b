"""Times the first search of a script, whole process, in multiples of ``python -c pass``:
``python -m tests.benchmarks first_search [--peers PYTHON]``.

The model is prepared and answers at once: by a function, from a recording, or as a service on this
machine. `rlms` and `dspy` run in a Python that has them installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.benchmarks.search_peers import __file__ as PEERS

TIMES = 5
_TEXT = "line of a text\n" * 5_000
_BLOCK = "```python\nFINAL(7)\n```"
_REPLIES = {
    "mahtab-tui": _BLOCK,
    "rlms": "```repl\nanswer['content'] = '7'\nanswer['ready'] = True\n```",
    "dspy": "[[ ## reasoning ## ]]\nI count.\n\n[[ ## code ## ]]\nSUBMIT('7')\n\n[[ ## completed ## ]]",
}
_OURS = "from mahtab_tui import rlm\nanswer = rlm('Which?', {text!r} * 5000, model={model})\nassert answer == '7', answer"


@contextlib.contextmanager
def _service(words: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
            message = {"role": "assistant", "content": words}
            if body.get("stream"):
                choice = {"index": 0, "delta": message, "finish_reason": "stop"}
                reply |= {"object": "chat.completion.chunk", "choices": [choice], "usage": usage}
                data = f"data: {json.dumps(reply)}\n\ndata: [DONE]\n\n"
            else:
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                data = json.dumps(reply | {"choices": [choice], "usage": usage})
            kind = "text/event-stream" if body.get("stream") else "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data.encode())))
            self.end_headers()
            self.wfile.write(data.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


def _time(command: list[str], given: str = "") -> float:
    walls = []
    for _ in range(TIMES):
        began = time.monotonic()
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise SystemExit(f"{command[:3]}: {done.stderr.strip().splitlines()[-1:]}")
        walls.append(time.monotonic() - began)
    return statistics.median(walls)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks first_search", description=__doc__
    )
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has rlms and dspy")
    peers = parser.parse_args(arguments).peers
    bare = _time([sys.executable, "-c", "pass"])
    _show("python -c pass", bare, bare)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as services:
        recording = Path(folder) / "model.jsonl"
        recording.write_text(json.dumps({"text": _BLOCK}) + "\n")
        urls = {name: services.enter_context(_service(_REPLIES[name])) for name in _REPLIES}
        models = {
            "a function": f"lambda messages: {_BLOCK!r}",
            "replay": repr(f"replay:{recording}"),
            "a service": f"'openai:m', base_url={urls['mahtab-tui']!r}, api_key='none'",
        }
        for name, model in models.items():
            script = _OURS.format(text="line of a text\n", model=model)
            _show(f"mahtab-tui, {name}", _time([sys.executable, "-c", script]), bare)
        for engine in ("rlms", "dspy") if peers else ():
            task = {"engine": engine, "url": urls[engine], "model": "m"}
            task |= {"question": "Which?", "text": _TEXT}
            _show(f"{engine}, a service", _time([peers, PEERS], json.dumps(task)), bare)


def _show(name: str, seconds: float, bare: float) -> None:
    print(f"{name:<24}{seconds * 1000:>7.0f} ms {seconds / bare:>6.1f} x", flush=True)
