"""A search of a text that is too long to read, with and without a screen."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PROGRAM, Replay, Start
from tests.warm import run_program

QUESTION = "Which requests timed out?"
LINE = "2026-11-21T10:00:00Z INFO  request {:07d} served in 12 ms\n"
FAILED = "2026-11-21T10:00:00Z ERROR request {:07d} timeout after 30 s\n"
HAND_DOWN = {
    "match": "Which requests timed out",
    "text": "```python\nparts = [part for part in partition(8) if 'timeout' in part]\n"
    "near = grep('timeout', context_lines=1)\nfound = rlm_map('List them', near)\nFINAL(', '.join(found))\n```",
}
PART = {"match": "List them", "text": "one of them"}


@pytest.fixture
def log(project: Path) -> Path:
    """Write a log of 20 MB in which three requests timed out."""
    path = project / "server.log"
    with path.open("w") as file:
        for number in range(360_000):
            file.write((FAILED if number % 120_000 == 77_777 else LINE).format(number))
    return path


def search(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_program("rlm", *arguments, stdin=stdin)


@pytest.mark.thorough
def test_answer_is_printed_alone_and_the_log_has_the_rest(
    log: Path, project: Path, replay: Replay
) -> None:
    model = replay(PART, HAND_DOWN)
    result = search(QUESTION, str(log), "--model", model, "--log", "events.jsonl")
    assert result.stdout == "one of them, one of them, one of them\n"
    lines = [json.loads(line) for line in (project / "events.jsonl").read_text().splitlines()]
    assert sum(line.get("attrs", {}).get("event") == "begin" for line in lines) == 4
    assert (project / "events.jsonl").stat().st_size < 20_000


def test_piped_text_is_searched_and_every_event_is_one_line(replay: Replay) -> None:
    model = replay("three")
    result = search("What is there?", "-", "--model", model, "--json", stdin="a\nb\nc\n")
    events: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[-1]["tag"] == "rlm-final"
    assert events[-1]["text"] == "three"


@pytest.mark.thorough
def test_exhausted_budget_gives_a_partial_answer(log: Path, replay: Replay) -> None:
    model = replay(
        {"match": "Answer the query now", "text": "At least one."},
        {"text": "```python\nprint(peek(10))\n```", "repeat": True},
    )
    result = search(QUESTION, str(log), "--model", model, "--max-calls", "3")
    assert result.returncode == 4, result.stderr
    assert result.stdout == "At least one.\n"
    assert "partial" in result.stderr


@pytest.mark.thorough
def test_large_fan_out_is_refused_when_nobody_can_be_asked(log: Path, replay: Replay) -> None:
    ask = {
        "match": "Which requests timed out",
        "text": "```python\ntry:\n    rlm_map('List them', partition(300))\nexcept Exception as error:\n    FINAL(error)\n```",
    }
    refused = search(QUESTION, str(log), "--model", replay(ask))
    assert "300 parts" in refused.stdout
    large_fan_out = {
        **ask,
        "text": "```python\nFINAL(len(rlm_map('List them', [str(n) for n in range(300)])))\n```",
    }
    agreed = search(QUESTION, str(log), "--model", replay(PART, large_fan_out), "--yes")
    assert agreed.stdout == "300\n", agreed.stderr


@pytest.mark.thorough
def test_search_ends_when_its_event_reader_is_gone(log: Path, replay: Replay) -> None:
    model = replay({"text": "```python\nwhile True: pass\n```", "repeat": True})
    command = [*PROGRAM, "rlm", "What is it?", str(log), "--model", model, "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["tag"] == "rlm-call"
        child.stdout.close()
        errors = child.stderr.read()
    assert child.returncode == 1
    assert "Traceback" not in errors
    assert "Exception" not in errors


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("without", "code", "out", "message"),
    [
        ("2>&-", 0, "three\n", ""),
        ("2>/dev/full", 0, "three\n", ""),
        (">/dev/full", 1, "", "stdout cannot be written: No space left on device."),
        ("<&-", 0, "three\n", "calls: 1 ("),
    ],
)
def test_missing_or_full_stream_does_not_crash(
    replay: Replay, without: str, code: int, out: str, message: str
) -> None:
    command = [*PROGRAM, "rlm", "What is it?", "-", "--model", replay("three")]
    result = subprocess.run(
        f"{shlex.join(command)} {without}",
        shell=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (code, out)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.thorough
def test_a_resumed_session_shows_its_searches(start: Start, log: Path, replay: Replay) -> None:
    model = replay(PART, HAND_DOWN)
    first_terminal = start("--model", model).idle()
    code = f"from pathlib import Path; answer = rlm({QUESTION!r}, Path('server.log'))"
    first_terminal.enter(code, r"✓ Which requests timed out")
    first_terminal.wait(r"\+ answer Answer")  # the cell has ended, so quitting asks nothing
    first_terminal.idle()
    first_terminal.leave()
    start("--model", model, "--continue").wait(r"✓ Which requests timed out")


@pytest.mark.thorough
def test_limited_encoding_loses_no_answer(replay: Replay) -> None:
    result = subprocess.run(
        [*PROGRAM, "rlm", "What is it?", "-", "--model", replay("drei Äpfel")],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (0, b"drei \\xc4pfel\n"), result.stderr
