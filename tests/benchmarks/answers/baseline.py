"""The baseline: one call, whose first code block is run; its output is the answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tests.benchmarks.answers.outcome import Outcome

SYSTEM = "You answer with one Python code block that prints the answer. pandas is imported as pd."

_BLOCK = re.compile(r"```(?:python|py)?[^\S\n]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_MOST_WRITTEN = 1_500
"""Tokens of an answer, because a model at temperature 0 may repeat itself without end."""
_MOST_SHOWN = 4_000
"""Characters of an output."""


def describe(files: Sequence[Path]) -> str:
    """Describe tables to a model: name, types of the columns, and the first rows."""
    with pd.option_context("display.width", 200, "display.max_columns", 40):
        return "\n".join(
            f"{file.stem}.dtypes:\n{table.dtypes}\n\n{file.stem}.head(3):\n{table.head(3)}\n"
            for file in files
            for table in [pd.read_csv(file)]
        )


def complete(url: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send a request for a chat completion."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=seconds) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer


def run_block(code: str, files: Sequence[Path], seconds: float) -> tuple[str, str]:
    """Run code in a new process with the tables; return its output and the error's last line."""
    loading = [f"{file.stem} = pd.read_csv({str(file)!r})" for file in files]
    running = f"exec(compile({code!r}, '<block>', 'exec'))"
    command = [sys.executable, "-c", "\n".join(["import pandas as pd", *loading, running])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "", f"TimeoutError: the code ran longer than {seconds:g} s"
    error = (done.stderr.strip().splitlines() or ["failed"])[-1] if done.returncode else ""
    return done.stdout[:_MOST_SHOWN].strip(), error


class Baseline:
    """One conversation at temperature 0: the output of each block becomes words of the user."""

    def __init__(self, url: str, model: str, seconds: float, files: Sequence[Path]) -> None:
        self._url = url
        self._model = model
        self._files = files
        self._seconds = seconds
        self._messages: list[dict[str, str]] = [{"role": "system", "content": SYSTEM}]
        self._tables = describe(files)

    def ask(self, question: str) -> Outcome:
        text = question if len(self._messages) > 1 else f"{self._tables}\n{question}"
        self._messages.append({"role": "user", "content": text})
        outcome = Outcome(calls=1, transcript=[("question", text)])
        began = time.perf_counter()
        body: dict[str, Any] = {"model": self._model, "messages": self._messages}
        body |= {"temperature": 0, "max_tokens": _MOST_WRITTEN}
        try:
            self._take(complete(self._url, body, self._seconds), outcome)
        except (OSError, ValueError, LookupError) as error:
            outcome.failure = f"{type(error).__name__}: {error}"
        outcome.seconds = time.perf_counter() - began
        return outcome

    def _take(self, reply: dict[str, Any], outcome: Outcome) -> None:
        words = str(reply["choices"][0]["message"]["content"])
        usage = reply.get("usage") or {}
        outcome.read = usage.get("prompt_tokens", 0)
        outcome.written = usage.get("completion_tokens", 0)
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        timed = (reply.get("timings") or {}).get("cache_n", 0)
        outcome.cached = timed if cached is None else cached
        if len(self._messages) > 2:
            outcome.later_read = outcome.read
            outcome.later_cached = outcome.cached
        outcome.transcript.append(("answer", words))
        self._messages.append({"role": "assistant", "content": words})
        block = _BLOCK.search(words)
        if block is None:
            outcome.answer = words
            return
        outcome.codes.append(block[1])
        output, error = run_block(block[1], self._files, self._seconds)
        outcome.answer = "\n".join(filter(None, (output, error)))
        outcome.failure = error
        outcome.transcript.append(("output", outcome.answer))
        self._messages.append({"role": "user", "content": f"It printed: {outcome.answer}"})
