"""Files of prepared answers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.replay_file import read_replay


@pytest.mark.parametrize(
    "text", ["half \ud83d", "a\u2028b\u2029c\x85d", "\x00\x1b[2J", "שלום 漢字 🌙"]
)
@pytest.mark.parametrize("escaped", [True, False])
def test_any_text_is_an_answer(tmp_path: Path, text: str, escaped: bool) -> None:
    path = tmp_path / "replay.jsonl"
    escaped = escaped or "\ud83d" in text
    path.write_text(
        json.dumps({"text": text}, ensure_ascii=escaped)
        + "\n\n"
        + json.dumps({"text": "more"})
        + "\r\n",
        "utf-8",
        newline="",
    )
    assert [line.text for line in read_replay(path)] == [text, "more"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "line 2: invalid JSON"),
        ('{"txt": "a"}', "line 2: txt: there is no such field"),
        ('{"repeat": true}', "line 2: it has neither text nor error"),
        ('{"text": "a", "more": 1}', "line 2: more: "),
        ('{"text": "a", "match": "("}', "line 2: match: not a regular expression"),
        ('["text"]', "line 2: a line must be a JSON object"),
        ('{"text": 7}', "line 2: text: int is not what belongs there"),
        ('{"text": "a", "repeat": 1}', "line 2: repeat: int is not"),
        ('{"text": "a", "tokens_per_second": true}', "line 2: tokens_per_second: bool is not"),
        ('{"text": "a", "tokens_per_second": 0}', "line 2: tokens_per_second: it must be more"),
        ('{"text": "a", "usage": {"input_tokens": "1"}}', "line 2: input_tokens: str is not"),
        ('{"text": "a", "usage": {"tokens": 1}}', "line 2: tokens: there is no such field"),
        pytest.param(
            "[" * 100_000,
            "line 2: a number is too long, or the JSON is nested too deeply.",
            id="deep",
        ),
        pytest.param(
            '{"tokens_per_second": ' + "9" * 5_000 + "}",
            "line 2: a number is too long, or the JSON is nested too deeply.",
            id="long number",
        ),
    ],
)
def test_replay_file_error_names_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "replay.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n', "utf-8")
    with pytest.raises(ModelError) as caught:
        read_replay(path)
    assert f"{path}, {message}" in str(caught.value)


def test_non_file_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ModelError, match="is not a file"):
        read_replay(path)
