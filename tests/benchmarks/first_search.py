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
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.benchmarks.engines import dspy_block, rlms_block
from tests.benchmarks.search_peers import __file__ as PEERS
from tests.benchmarks.table import timed
from tests.services import LocalServer, answering

TIMES = 5
_LINE = "line of a text\n"
_BLOCK = "```python\nFINAL(7)\n```"
_REPLIES = {
    "mahtab-tui": _BLOCK,
    "rlms": rlms_block("answer['content'] = '7'\nanswer['ready'] = True"),
    "dspy": dspy_block("SUBMIT('7')"),
}
_OURS = "from mahtab_tui import rlm\nanswer = rlm('Which?', {text!r} * 5000, model={model})\nassert answer == '7', answer"


@contextlib.contextmanager
def _service(words: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stream = body.get("stream")
            reply: dict[str, Any] = {"id": "1", "created": 1, "model": "m"}
            reply["object"] = "chat.completion.chunk" if stream else "chat.completion"
            reply["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            message = {"role": "assistant", "content": words}
            choice = {"index": 0, "finish_reason": "stop"}
            reply["choices"] = [choice | {"delta" if stream else "message": message}]
            data = json.dumps(reply)
            if stream:
                data = f"data: {data}\n\ndata: [DONE]\n\n"
            kind = "text/event-stream" if stream else "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data.encode())))
            self.end_headers()
            self.wfile.write(data.encode())

    with LocalServer(Handler) as server, answering(server):
        yield f"http://127.0.0.1:{server.server_port}/v1"


def _time(command: list[str], stdin_text: str = "") -> float:
    def run() -> None:
        done = subprocess.run(
            command, input=stdin_text, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise SystemExit(f"{command[:3]}: {done.stderr.strip().splitlines()[-1:]}")

    return statistics.median(timed(run, TIMES))


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
            script = _OURS.format(text=_LINE, model=model)
            _show(f"mahtab-tui, {name}", _time([sys.executable, "-c", script]), bare)
        for engine in ("rlms", "dspy") if peers else ():
            task = {"engine": engine, "url": urls[engine], "model": "m", "question": "Which?"}
            task["text"] = _LINE * 5_000
            _show(f"{engine}, a service", _time([peers, PEERS], json.dumps(task)), bare)


def _show(name: str, took: float, bare: float) -> None:
    print(f"{name:<24}{took:>7.0f} ms {took / bare:>6.1f} x", flush=True)
