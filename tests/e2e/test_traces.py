"""Spans of a question, which LangSmith's client sends to a collector as the manual says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from mahtab_tui.manual import page
from tests.collector import collecting
from tests.services import OPENAI, serving

CODE = "```python\nprint(6 * 7)\n```"
STEP = ["  generate", "    ChatService", "    after_generate", "  extract_code"]
KEY = "sk-aaaaaaaaaaaaaaaa"


def test_question_reaches_the_collector_with_its_model_calls(project: Path) -> None:
    with collecting() as collector, serving() as service:
        service.replies = [OPENAI.reply(CODE), OPENAI.reply("It is 42.")]
        variables = dict(re.findall(r"^export (\w+)=(\S+)$", page("models").text, re.MULTILINE))
        assert variables.keys() >= {"LANGSMITH_OTEL_ONLY", "OTEL_EXPORTER_OTLP_ENDPOINT"}
        variables |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "NO_PROXY": "127.0.0.1"}
        others = {name: text for name, text in os.environ.items() if "LANG" not in name}
        words = ["ask", f"How much? {KEY}", "--model", "openai:gpt-4o", "--approval", "auto"]
        command = [
            sys.executable,
            "-m",
            "mahtab_tui",
            *words,
            "--set",
            f"base_url={service.url}/v1",
        ]
        keys = {"OPENAI_API_KEY": KEY}
        done = subprocess.run(
            command, env=others | variables | keys, capture_output=True, text=True
        )
    assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
    assert collector.tree()[:5] == ["LangGraph", *STEP]
    calls = [span for span in collector.spans if span.name == "ChatService"]
    assert [call.attributes["gen_ai.usage.input_tokens"] for call in calls] == [1000, 1000]
    assert "print(6 * 7)" in calls[0].attributes["gen_ai.completion"]
    assert "How much?" in calls[0].attributes["gen_ai.prompt"]
    assert "It is 42." in calls[1].attributes["gen_ai.completion"]
    assert not any(KEY.encode() in body for body in collector.bodies)
