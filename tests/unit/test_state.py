"""Sessions that a program holds: SessionState."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mahtab_tui
from mahtab_tui import LimitedOutput, SessionState, UsageStats, execute_code, iter_skills
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import Usage
from mahtab_tui.kernel.process import ProcessKernel
from tests import tags
from tests.integration.kernels import running
from tests.records import emit
from tests.skills import write_skill
from tests.trust import trust_project


@pytest.fixture
def state() -> Iterator[SessionState]:
    state = SessionState()
    yield state
    state.close()


def test_code_runs_in_the_callers_namespace(state: SessionState) -> None:
    d: dict[str, Any] = {"x": 20}
    state.init_namespace(d)
    assert execute_code("y = x + 1\nprint('so')\ny * 2", state) == ("so\n42\n", False)
    assert d["y"] == 21


def test_cells_see_local_names_first_and_store_theirs_there(state: SessionState) -> None:
    outer = {"x": 1, "y": 2}
    inner: dict[str, Any] = {"y": 3, "z": 4}
    state.init_namespace(outer, inner)
    assert state.locals_ns is inner
    assert execute_code("w = x + y\nx = 10\ndel z\nw", state) == ("4\n", False)
    assert outer == {"x": 1, "y": 2}
    assert inner == {"y": 3, "w": 4, "x": 10}


def test_namespace_is_summarised(state: SessionState) -> None:
    state.init_namespace({"x": 20, "words": ["a"], "_own": 1, "salary": 77, "os": os})
    execute_code("private('salary')", state)
    lines = state.summarize_namespace().splitlines()
    assert lines == ["x: int 20", "words: list 1 item"]
    assert state.summarize_namespace(max_vars=1).splitlines() == ["x: int 20", "… and 1 more"]
    assert state.summarize_namespace(max_vars=-1) == "… and 2 more"


def test_activity_context_is_the_newest_cells(state: SessionState) -> None:
    execute_code("print('first' * 10)", state)
    execute_code("1 / 0", state)
    context = state.get_activity_context()
    assert "print('first' * 10)" in context
    assert "ZeroDivisionError" in context
    short = state.get_activity_context(max_chars=330)
    assert len(short) <= 330
    assert "print('first" not in short
    assert "earlier records left out" in short


def test_reading_the_activity_opens_no_session() -> None:
    state = SessionState()
    assert "print" not in state.get_activity_context()
    assert state._session is None


def test_last_session_is_saved_and_mentioned_once(state: SessionState, tmp_path: Path) -> None:
    assert state.load_last_session() is None
    path = state.save_last_session("which rows?", "Rows 3 and 7.")
    assert path == Path.home() / ".mahtab" / "last_session.json"
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text()).keys() == {"timestamp", "user", "assistant"}
    last_session = state.load_last_session()
    assert last_session is not None
    assert (last_session.user, last_session.assistant) == ("which rows?", "Rows 3 and 7.")
    assert "which rows?" in first_context(SessionState())
    assert "which rows?" not in first_context(
        SessionState(messages=[{"role": "user", "content": "x"}])
    )


def first_context(state: SessionState) -> str:
    try:
        handlers = state._open().log.handlers
        (prompt,) = (handler for handler in handlers if isinstance(handler, PromptHandler))
        return prompt.get_context()
    finally:
        state.close()


def test_last_session_is_not_mentioned_if_switched_off(
    state: SessionState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.save_last_session("which rows?", "Rows 3 and 7.")
    monkeypatch.setenv("MAHTAB_MENTION_LAST_SESSION", "false")
    assert "which rows?" not in first_context(SessionState())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"timestamp": "x"}',
        '{"timestamp": 1e300, "user": "a", "assistant": "b"}',
        "[" * 100_000,
        "\0",
    ],
)
def test_damaged_last_session_is_none(state: SessionState, text: str) -> None:
    path = state.save_last_session("a", "b")
    path.write_text(text)
    assert state.load_last_session() is None


def test_long_last_session_is_shortened(state: SessionState) -> None:
    state.save_last_session("\0" * 2_000_000, "b" * 2_000_000)
    last_session = state.load_last_session()
    assert last_session is not None
    assert "characters left out" in last_session.user
    assert last_session.assistant.endswith("b")


def test_skills_are_iterated(tmp_path: Path) -> None:
    write_skill(tmp_path, "tidy", "Tidy up", content="Put things away.\n")
    write_skill(tmp_path, "count", "Count", content="One, two.\n")
    assert [skill.name for skill in iter_skills(tmp_path)] == ["count", "tidy"]


def test_error_result_is_the_traceback(state: SessionState) -> None:
    output, is_error = execute_code("def f():\n    return 1 / 0\nf()", state)
    assert is_error
    assert output.startswith("Traceback")
    assert "return 1 / 0" in output
    assert output.rstrip().endswith("ZeroDivisionError: division by zero")


def test_the_middle_of_a_long_output_is_left_out(state: SessionState) -> None:
    output, is_error = execute_code("for n in range(10**5): print(n)\nended = True", state)
    assert not is_error
    assert len(output) < 12_000
    assert output.startswith("0\n1\n")
    assert output.rstrip().endswith("99999")
    assert "characters left out" in output


def test_limited_output_raises(state: SessionState) -> None:
    limited = LimitedOutput(limit=3)
    with pytest.raises(RuntimeError, match="more than 3 characters"):
        print("four", file=limited)


def test_input_is_refused(state: SessionState) -> None:
    output, is_error = execute_code("input('name? ')", state)
    assert is_error
    assert "EOFError" in output


def test_the_source_is_searched_and_read_inside_the_folder(
    state: SessionState, project: Path
) -> None:
    (project / "app.py").write_text("x = 1\n")
    state.close()  # its parts are created again, in this folder
    output = execute_code("print(search_code(r'x = .', '*.py'))", state)[0]
    assert output == "app.py\n     1: x = 1\n"
    assert execute_code("print(read_file('app.py'))", state)[0] == "     1  x = 1\n"
    assert "RuntimeError: File not found: xyz.cbl" in execute_code("read_file('xyz.cbl')", state)[0]
    assert "is not a regular expression" in execute_code("search_code('(')", state)[0]


def test_skill_can_be_loaded_from_ones_own_folder(state: SessionState, tmp_path: Path) -> None:
    write_skill(tmp_path, "tidy", "Tidy up", content="Put things away.\n")
    state.skills_dir = tmp_path
    assert state.skills()["tidy"] == "Tidy up"
    loaded = execute_code("print(skill('tidy', 'the desk'))", state)[0]
    assert loaded.startswith("Put things away.\n\nArguments: the desk")
    assert "There is no skill" in execute_code("skill('untidy')", state)[0]
    (tmp_path / "tidy" / "where.md").write_text("In the drawer.")
    assert "where.md" in execute_code("print(skill('tidy'))", state)[0]
    assert execute_code("print(skill('tidy', file='where.md'))", state)[0] == "In the drawer.\n"
    assert 'must not contain ".."' in execute_code("skill('tidy', file='../x')", state)[0]
    assert execute_code("print(search_skills('tidying'))", state)[0].startswith("tidy: Tidy up")


def test_ask_in_a_cell_needs_an_agent(state: SessionState) -> None:
    assert "create_repl_agent" in execute_code("ask('why?')", state)[0]


def test_namespace_of_another_process_is_queried(project: Path) -> None:
    with running(ProcessKernel()) as cells:
        state = SessionState(kernel=cells.kernel)
        assert execute_code("n = 42", state) == ("", False)
        assert state.globals_ns == {}
        state.close()  # the kernel is the caller's to close
        assert [(variable.name, variable.summary) for variable in cells.kernel.variables()] == [
            ("n", "42")
        ]


def test_activity_does_not_grow_for_ever(state: SessionState) -> None:
    for number in range(1_200):
        emit(state.log, tags.USER_REPL_IN, str(number), cell=number)
    assert len(state.repl_activity) == 1_000
    assert state.repl_activity[-1].text == "1199"


def test_usage_adds_up() -> None:
    usage = UsageStats()
    other_counts: dict[str, Any] = {
        "cost": 0.25,
        "output_tokens": 2,
        "cache_read_tokens": 3,
        "cache_creation_tokens": 4,
    }
    usage.add(Usage(input_tokens=10, model="m", source="agent", **other_counts))
    usage.add(Usage(input_tokens=1))
    assert usage == UsageStats(input_tokens=11, calls=2, unpriced_calls=1, **other_counts)


def test_the_state_can_be_saved_and_printed_without_the_namespace(state: SessionState) -> None:
    state.init_namespace({"secret": object()})
    state.add_user_message("why?")
    execute_code("1 + 1", state)
    assert "secret" not in repr(state)
    saved = state.model_dump_json()
    assert "secret" not in saved
    back = SessionState.model_validate_json(saved)
    assert back.messages == state.messages
    assert back.repl_activity == state.repl_activity


def test_two_sessions_do_not_mix(state: SessionState) -> None:
    second = SessionState()
    execute_code("a = 1", state)
    execute_code("b = 2", second)
    assert ("a" in second.globals_ns, "b" in state.globals_ns) == (False, False)
    assert [record.text for record in state.repl_activity] == ["a = 1", ""]
    second.close()


def test_closing_leaves_nothing_behind(state: SessionState) -> None:
    handlers_before = list(logging.getLogger("mahtab").handlers)
    log = state.log
    assert execute_code("n = 1", state) == ("", False)
    state.close()
    state.close()
    assert log.handlers == []
    assert logging.getLogger("mahtab").handlers == handlers_before
    assert state.globals_ns["n"] == 1
    assert execute_code("n + 1", state) == ("2\n", False), "it can be used again"


def test_every_public_name_can_be_imported() -> None:
    other_names = {"create_repl_agent": "ReplAgent"}
    for name in mahtab_tui.__all__:
        assert getattr(mahtab_tui, name).__name__ == other_names.get(name, name)
        assert name in dir(mahtab_tui)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mahtab_tui.nothing


def test_configured_limits_and_keys_apply_to_programs_too(
    project: Path, state: SessionState
) -> None:
    (project / ".env").write_text("OPENAI_API_KEY=sk-in-the-env-file\nMAHTAB_MAX_USD=0.5\n")
    trust_project()
    assert state.agent_host("demo").spending.max_usd == 0.5
    emit(state.log, tags.USER_CHAT, "with sk-in-the-env-file", turn=1)
    ((_, text),) = state.conversation()
    assert text == "with ••••••••"


def test_program_can_undo_bindings_of_its_code(state: SessionState) -> None:
    names: dict[str, Any] = {"kept": 1}
    state.init_namespace(names)
    state.run_code("kept = 2; new = 3")
    restoration = state.undo()
    assert {change.name for change in restoration.changes} == {"kept", "new"}
    assert (names["kept"], "new" in names) == (1, False)
    state.redo()
    assert (names["kept"], names["new"]) == (2, 3)
