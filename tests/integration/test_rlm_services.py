"""Searches over services by our own client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.search import limits
from mahtab_tui.search.api import CancelToken, Search, rlm
from mahtab_tui.search.conversation import ChosenModels
from mahtab_tui.search.limits import Limits
from mahtab_tui.worker.search import SearchFailed
from tests import tags
from tests.integration.asking import PATIENCE
from tests.integration.scripted_searches import LOG, python
from tests.recursion_scripts import Story
from tests.services import ANTHROPIC, OPENAI, Protocol, Service, refusing

FINAL = python("FINAL(len(context))")
LENGTH = str(len(LOG))


def loaded_by(options: str) -> str:
    program = f"""
import sys
import mahtab_tui
print(mahtab_tui.rlm("how long?", "x" * 100_000, {options}))
heavy = ("langchain", "openai", "anthropic")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout or done.stderr


@pytest.mark.parametrize("protocol", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_search_over_a_service_loads_no_model_library(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply(FINAL)]
    assert loaded_by(f"model={protocol.spec!r}, max_usd=1") == "100000\n[]\n"


def test_replayed_search_loads_no_model_library(tmp_path: Path) -> None:
    path = tmp_path / "replay.jsonl"
    path.write_text(json.dumps({"text": FINAL, "tokens_per_second": 1_000}) + "\n")
    assert loaded_by(f"model='replay:{path}', max_usd=1") == "100000\n[]\n"


def test_anthropic_search_reports_usage_and_retries(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_FIRST_PAUSE", 0.01)
    wait = {"retry-after": "0.02"}
    overloaded = refusing(529, "Overloaded", kind="overloaded_error", headers=wait)
    service.replies = [overloaded, ANTHROPIC.reply("Well.\n", FINAL)]
    story = Story()
    answer = rlm("?", LOG, model=ANTHROPIC.spec, max_usd=9, on_event=story.append)
    assert (answer, answer.usage.calls, answer.usage.tokens) == (LENGTH, 1, 1_100)
    assert answer.usage.usd > 0
    assert [pause.attrs["seconds"] for pause in story.of(tags.RLM_CALL) if "seconds" in pause.attrs]
    sent = service.asked[1]
    assert (sent["messages"][0]["role"], sent["stream"]) == ("user", True)
    assert "Python" in sent["system"]


def test_refused_and_cut_answers_are_understood(service: Service) -> None:
    refused = [piece.replace(b"end_turn", b"refusal") for piece in ANTHROPIC.end]
    service.replies = [ANTHROPIC.sending([ANTHROPIC.words("No"), *refused])]
    story = Story()
    with pytest.raises(SearchFailed, match="safeguards stopped the answer"):
        rlm("?", LOG, model=ANTHROPIC.spec, on_event=story.append)
    assert story.of(tags.USAGE)[0].attrs["input_tokens"] == 1_000, "as reported"
    service.replies = [ANTHROPIC.sending([ANTHROPIC.words("It is"), *ANTHROPIC.cut])]
    answer = rlm("?", "short", model=ANTHROPIC.spec)
    assert (answer, answer.state) == ("It is", "partial")


def test_stopped_search_closes_its_connection(service: Service) -> None:
    caller = CancelToken()
    service.replies = [OPENAI.sending([OPENAI.words("Well"), caller.stop, service.stall])]
    search = Search(lambda record: None)
    try:
        assert search.run("?", LOG, model=OPENAI.spec, caller=caller).state == "stopped"
        assert service.left.wait(PATIENCE)
    finally:
        search.close()


def test_search_goes_through_langchain_where_that_sends_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kind() -> str:
        models = ChosenModels(dict, Secrets(), lambda level, text: None)
        return type(models.get("vllm:m", Limits())).__name__

    assert kind() == "ServiceModel"
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    assert kind() == "ChatModel"
