"""The process of `claude`: its logins, limits, usage and notices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from mahtab_tui.bus.entries import AnswerText
from mahtab_tui.cli import doctor
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.claude_login import has_gateway, login_environment, login_hint
from mahtab_tui.llm.claude_turn import ClaudeNotice, ClaudeTurn, Restart
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.transcript.fold import Transcript
from tests.agents import RecordedSession, read
from tests.fake_claude import FakeClaude, InstallClaude
from tests.unit.conftest import Claude

# Logins and gateways: the user's are used, and the key that would be billed is not.

KEY = "ANTHROPIC_API_KEY"
GATEWAY = "ANTHROPIC_BASE_URL"

WATCHED = ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS")

HELLO: list[AnyMessage] = [SystemMessage("Be kind."), HumanMessage("hello")]
COUNTS = {
    "v330_ok": (2_400, 5, 0.00658),
    "v197_ok": (2_400, 5, 0.00845),
    "v330_maxtok": (4_800, 8, 0.01312),
    "v330_thinkmax": (4_800, 25, 0.01346),
    "v330_refusal": (4_800, 10, 0.01316),
    "v197_refusal": (2_400, 5, 0.00845),
    "v330_midstream_drop": (14_400, 29, 0.03946),
    "v197_midstream_drop": (2_400, 7, 0.0085),
    "killed_SIGINT": (2_400, 20, 0.00688),
}
"""Tokens read (half of them new, three parts of the other half from the cache), tokens written, US
dollars."""


def write_settings(folder: Path, settings: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = settings if isinstance(settings, str) else json.dumps(settings)
    (folder / "settings.json").write_text(text)


def test_a_gateway_of_the_shell_is_used_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GATEWAY, "https://gateway.test")
    monkeypatch.setenv(KEY, "the gateway's key")
    environment = login_environment(use_api_key=False)
    assert (environment[GATEWAY], environment[KEY]) == ("https://gateway.test", "the gateway's key")
    assert login_hint(use_api_key=False) == f"Requests go to the gateway in {GATEWAY}."


@pytest.mark.parametrize("directory", [None, "elsewhere"])
def test_gateway_of_claudes_own_settings_keeps_the_shells_key(
    home: Path, monkeypatch: pytest.MonkeyPatch, directory: str | None
) -> None:
    monkeypatch.setenv(KEY, "the gateway's key")
    monkeypatch.setenv(GATEWAY, "https://of-the-shell.test")
    if directory:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / directory))
    write_settings(
        home / (directory or ".claude"),
        {"env": {GATEWAY: "https://user:password@of-settings.test:8443/v1/a-key@b"}},
    )
    assert has_gateway()
    assert login_environment(use_api_key=False)[KEY] == "the gateway's key"


def test_settings_without_a_gateway_give_none(home: Path) -> None:
    envs: list[object] = [[], {GATEWAY: 5}, {GATEWAY: ""}]
    wrong = [{"env": env} for env in envs]
    for settings in ("{", "[]", "[" * 100_000, {"hooks": {}}, *wrong):
        write_settings(home / ".claude", settings)
        assert not has_gateway(), settings


def test_login_error_mentions_the_unused_key(
    install_claude: InstallClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_claude("recording", recording="nokey")
    monkeypatch.setenv(KEY, "a key")
    with pytest.raises(
        ModelError,
        match=rf"Run `claude`, then /login in it\. {KEY} is set but was not passed .*config set claude_api_key true",
    ):
        get_llm("claude").invoke([HumanMessage("hello")])
    monkeypatch.delenv(KEY)
    with pytest.raises(ModelError, match=r"then /login in it\.$"):
        get_llm("claude").invoke([HumanMessage("hello")])


@pytest.mark.parametrize("use_api_key", [True, False])
def test_setting_passes_the_key(
    install_claude: InstallClaude, monkeypatch: pytest.MonkeyPatch, use_api_key: bool
) -> None:
    fake = install_claude("recording", recording="success")
    monkeypatch.setenv(KEY, "a key")
    monkeypatch.setenv("MAHTAB_CLAUDE_API_KEY", str(use_api_key))
    get_llm("claude", **load_settings().model_access()).invoke([HumanMessage("hello")])
    assert fake.starts[0]["keys"] == ([KEY] if use_api_key else [])


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ('{"loggedIn": true}', r"✓ claude .*, logged in"),
        ('{"loggedIn": false}', r"! claude .*\n.*then /login in it"),
        ("Usage: claude [options]", r"! claude .*\n.*then /login in it"),
    ],
)
def test_the_doctor_asks_claude_who_is_logged_in(
    install_claude: InstallClaude, monkeypatch: pytest.MonkeyPatch, status: str, line: str
) -> None:
    fake = install_claude("answers", auth=status)
    monkeypatch.setenv(KEY, "a key")
    report = doctor._check_claude(use_api_key=False)
    assert re.match(line, report)
    assert f"{KEY} is set but was not passed" in report
    assert fake.received == [{"auth": ["--safe-mode", "--setting-sources", "user"], "keys": []}]


# How long `claude` may think and answer.


def limits(fake: FakeClaude) -> dict[str, str]:
    return {name: value for name, value in fake.starts[-1]["env"].items() if value is not None}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        (
            {"max_tokens": 8_000},
            {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000", "MAX_THINKING_TOKENS": "4000"},
        ),
    ],
    ids=["by default", "half of a limit is for the answer"],
)
def test_process_gets_limits_of_answer_and_thinking(
    claude: Claude, options: dict[str, Any], expected: dict[str, str]
) -> None:
    fake = claude.answers("one", watched=WATCHED)
    get_llm("claude", **options).invoke("hello")
    assert limits(fake) == expected


def test_users_own_limit_applies(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "5000")
    fake = claude.answers("one", watched=WATCHED)
    claude.model().invoke("hello")
    assert limits(fake) == {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5000"}


# Usage and notices of a turn.


def result(cost: float, tokens: int, text: str = "one", **fields: Any) -> list[dict[str, Any]]:
    token_counts = {"inputTokens": tokens, "outputTokens": tokens}
    token_counts |= {"cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}
    message = {"model": "m", "content": [{"type": "text", "text": text}]}
    ending = {"type": "result", "subtype": "success", "is_error": False, "total_cost_usd": cost}
    ending |= {"modelUsage": {"m": token_counts}, **fields}
    return [{"type": "assistant", "message": message}, ending]


@pytest.mark.parametrize("name", COUNTS)
def test_cached_tokens_and_failed_turns_are_counted(claude: Claude, name: str) -> None:
    claude.install("recording", recording=name)
    usage = read(claude.model(), HELLO).usage
    assert usage is not None
    tokens, written, cost = COUNTS[name]
    assert (usage.input_tokens, usage.output_tokens) == (tokens, written)
    assert usage.cost == pytest.approx(cost)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (tokens * 3 // 8, tokens // 8)


def test_streamed_tokens_count_when_the_process_dies(claude: Claude) -> None:
    claude.install("recording", recording="partial_killed", exits=True)
    answer = read(claude.model(), HELLO)
    assert "ended with exit code" in answer.failure
    assert answer.usage is not None
    assert answer.usage.input_tokens == 2_400


def test_compaction_calls_of_the_cli_are_counted_and_disabled(claude: Claude) -> None:
    """The second turn compacts before it answers: of its 80 tokens its own result names 10."""
    compacting = {"type": "system", "subtype": "compact_boundary"}
    usage = {"input_tokens": 10, "output_tokens": 10}
    turns = [result(0.1, 20), [compacting, *result(0.9, 100, "two", usage=usage)]]
    fake = claude.install("events", turns=turns, watched=["DISABLE_AUTO_COMPACT"])
    llm = claude.model()
    assert fake.starts == []
    first_usage = read(llm, HELLO).usage
    second = read(llm, [*HELLO, AIMessage("one"), HumanMessage("more")]).usage
    assert first_usage is not None
    assert second is not None
    assert first_usage.input_tokens == 20
    assert first_usage.cost == pytest.approx(0.1)
    assert (second.input_tokens, second.output_tokens) == (80, 80)
    assert second.cost == pytest.approx(0.8)
    assert "its own summary" in "".join(claude.notices)
    assert fake.starts[0]["env"] == {"DISABLE_AUTO_COMPACT": "1"}


def test_refused_message_is_not_part_of_the_answer(claude: Claude) -> None:
    claude.install("recording", recording="v330_refusal")
    answer = read(claude.model(), HELLO)
    assert (answer.text, answer.failure) == ("Hello from the fake server.", "")
    assert claude.notices == [
        "claude: Opus 5.5's safeguards stopped the response above · continuing once with that noted"
    ]


def test_first_part_of_an_answer_stays_when_the_rest_is_retried() -> None:
    turn = ClaudeTurn()

    def stream(**event: Any) -> list[Any]:
        return list(turn.fold({"type": "stream_event", "event": event}))

    def words(text: str) -> list[Any]:
        return stream(type="content_block_delta", delta={"type": "text_delta", "text": text})

    stream(type="message_start")
    words("The beginning ")
    stream(type="message_delta", delta={"stop_reason": "max_tokens"})
    stream(type="message_start")
    words("and the mid")
    assert stream(type="message_start") == [Restart("The beginning ")]
    words("and the end.")
    assert turn.text == "The beginning and the end."


def test_restarted_answer_is_drawn_once(claude: Claude, recorded_session: RecordedSession) -> None:
    """Reads the transcript after every record."""
    claude.install("recording", recording="v330_midstream_drop")
    recorded_session.run(llm=claude.model(), prompt="hello", reflection="never")
    transcript = Transcript(0.0)
    drawn_texts = []
    for record in recorded_session.records:
        transcript.fold([record])
        visible_words = (
            entry
            for entry in transcript.entries
            if isinstance(entry, AnswerText) and not entry.hidden
        )
        drawn_texts.append("".join(entry.source for entry in visible_words))
    assert max(text.count("Hello") for text in drawn_texts) == 1
    assert drawn_texts[-1] == "Hello from the fake server."


@pytest.mark.parametrize(
    ("info", "notices"),
    [
        ({"status": "allowed", "isUsingOverage": False}, []),
        (
            {"status": "allowed_warning", "rateLimitType": "five_hour"},
            ["The five hour limit of the account is nearly reached."],
        ),
        (
            {"status": "allowed", "isUsingOverage": True},
            ["The usage limit of the account is used up; answers are now billed as extra usage."],
        ),
        ({"status": 7, "resetsAt": 10**30, "utilization": "x", "rateLimitType": []}, []),
    ],
)
def test_account_limits_are_reported_once(
    claude: Claude, info: dict[str, Any], notices: list[str]
) -> None:
    events = [{"type": "rate_limit_event", "rate_limit_info": info}]
    claude.install("events", turns=[[*events, *events, *result(0.1, 20)]])
    claude.model().invoke(HELLO)
    assert claude.notices == notices


def test_limit_reset_is_given_as_a_time_of_day() -> None:
    info = {"status": "rejected", "rateLimitType": "seven_day", "resetsAt": 1_700_000_000}
    [notice] = ClaudeTurn().fold({"type": "rate_limit_event", "rate_limit_info": info})
    assert isinstance(notice, ClaudeNotice)
    start = "The seven day limit of the account is reached. It resets on "
    assert re.match(f"{start}(Tuesday|Wednesday) at ", notice.text)
