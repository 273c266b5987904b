"""A question without a screen: nobody who could approve code, and limits of cost."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.cli.ask import AnswerForm, ask_questions
from mahtab_tui.cli.ask_output import AskedQuestion, OutputForm, print_answer
from mahtab_tui.cli.ask_records import AnswerCollector, EventPrinter
from mahtab_tui.cli.headless import ANSWERED_CODE, FAILED_CODE, REFUSED_CODE
from mahtab_tui.session.data_files import inspect_files
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.integration.sessions import Opened, OpenSession
from tests.records import made
from tests.services import OPENAI, Service, refusing, serving

CODE = "open('made', 'w')"

TOO_COSTLY = "The model was not asked: the call could cost up to $0.4000, and $0.2000 of the session's limit of $1.00 (max_usd) is left."


@pytest.fixture
def replay(tmp_path: Path) -> Callable[..., str]:
    def make(*texts: str) -> str:
        answers = [{"text": text} for text in texts[:-1]] + [{"text": texts[-1], "repeat": True}]
        path = tmp_path / "answers.jsonl"
        path.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
        return f"replay:{path}"

    return make


@pytest.fixture
def model(replay: Callable[..., str]) -> str:
    return replay(f"```python\n{CODE}\n```", "In words.")


def ask(
    model: str, question: str = "Make it.", *files: Path, as_json: bool = False, **settings: Any
) -> int:
    settings_ = load_settings(model=model, **settings)
    form = AnswerForm(prints_events=as_json)
    return ask_questions(iter([question]), settings_, inspect_files(files), form=form)


@pytest.fixture(autouse=True)
def empty_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", (tmp_path / "nothing").open("w+"))


@pytest.mark.parametrize("approval", ["ask", "review"])
def test_unapproved_code_is_printed_and_not_run(
    model: str, project: Path, capsys: pytest.CaptureFixture[str], approval: str
) -> None:
    assert ask(model, approval=approval) == REFUSED_CODE
    captured = capsys.readouterr()
    assert captured.out == "", "the model is not asked again"
    lines = captured.err.splitlines()
    if approval == "review":
        assert lines.pop(0) == (
            "mahtab-tui: Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."
        )
    assert lines == [
        "mahtab-tui: Not run: no one is here to approve it (--approval auto runs it):",
        CODE,
    ]
    assert not (project / "made").exists()
    assert ask(model, approval=approval, as_json=True) == REFUSED_CODE
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    notices_with_code = [CODE in event["text"] for event in events if event["tag"] == "notice"]
    assert notices_with_code == ([False, True] if approval == "review" else [True])


def test_code_reading_input_gets_end_of_file(
    replay: Callable[..., str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = "import getpass, sys\nprint(repr(sys.stdin.readline()))\nfor read in getpass.getpass, input:\n    try: read()\n    except EOFError: print('none')\nbreakpoint()"
    ask(replay(f"```python\n{block}\n```"), approval="auto", reflection="never")
    err = capsys.readouterr().err
    assert "''\n" in err
    assert err.count("\nnone\n") == 2
    assert "(Pdb)" in err


@pytest.mark.parametrize("approval", ["ask", "review", "auto"])
def test_code_with_hidden_characters_is_not_run(
    approval: str, project: Path, replay: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    hiding = replay(f"```python\n'\x1bP'\n{CODE}\n'\x1b\\'\n```", "In words.")
    assert ask(hiding, approval=approval, reflection="never") == ANSWERED_CODE
    captured = capsys.readouterr()
    assert captured.out == "In words.\n"
    assert "was not run. Line 1 contains the character U+001B" in captured.err
    assert not (project / "made").exists()


@pytest.mark.parametrize(("approval", "mark"), [("ask", ""), ("auto", ">>> ")])
def test_hidden_characters_of_code_are_made_visible(
    project: Path,
    replay: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    approval: str,
    mark: str,
) -> None:
    code = "'\u200b'\u2028# \x0c\n1"
    ask(replay(f"```python\n{code}\n```"), approval=approval, reflection="never")
    assert f"{mark}'⟨U+200B⟩'⟨U+2028⟩# ␌\n{mark}1\n" in capsys.readouterr().err


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("how many orders have no price?", ANSWERED_CODE),
        ("write a poem about the moon", FAILED_CODE),
        ("mean of weight in orders", FAILED_CODE),
    ],
)
def test_demo_without_an_answer_is_a_failure(
    question: str, code: int, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "orders.csv").write_text("id,price\n1,10\n2,\n")
    assert ask("demo", question, project / "orders.csv", approval="auto") == code
    captured = capsys.readouterr()
    if code == FAILED_CODE:
        assert captured.out == ""
        assert "mahtab-tui: The" in captured.err
    else:
        assert "1 of 2 rows have no price" in captured.out


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("<think>Hm.</think>", "The model gave no answer: it wrote down only its thinking."),
        ("<think>Hm, and so on", "The model gave no answer: it wrote down only its thinking."),
        (" ", "The model gave an empty answer."),
    ],
)
def test_an_answer_without_words_is_a_failure(
    answer: str, reason: str, replay: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(replay(answer)) == FAILED_CODE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count(reason) == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_uncomputed_figures_are_named(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    collector = AnswerCollector()
    log = logging.Logger("asked")
    log.addHandler(collector)
    if as_json:
        log.addHandler(EventPrinter())
    figures = (
        AnswerFigure("8", True, 3),
        AnswerFigure("10", False),
        AnswerFigure("12", False, near="13"),
        AnswerFigure('"a\x1b[2Jb"', False),
    )
    records.emit(log, records.AssistantChat('8, 10, "a\x1b[2Jb"', turn=1, step=0, figures=figures))
    if as_json:
        attrs = json.loads(capsys.readouterr().out)["attrs"]
        assert attrs["figures"][:2] == [
            {"text": "8", "found": True, "cell": 3},
            {"text": "10", "found": False},
        ]
        assert attrs["figures"][2] == {"text": "12", "found": False, "near": "13"}
        return

    doubts = collector.uncomputed_figures
    asked = AskedQuestion("?", "8, 10", (), doubts, (), ANSWERED_CODE, session="")
    print_answer(asked, OutputForm.TEXT, is_quiet=False)
    assert capsys.readouterr() == (
        "8, 10\n",
        'mahtab-tui: not computed: 10, 12 (printed: 13), "ab"\n',
    )
    print_answer(asked, OutputForm.TEXT, is_quiet=True)
    assert capsys.readouterr() == ("8, 10\n", "")
    print_answer(asked, OutputForm.JSON, is_quiet=True)
    assert json.loads(capsys.readouterr().out)["not_computed"] == doubts


@pytest.mark.parametrize("form", OutputForm)
def test_answer_and_code_do_not_drive_the_terminal(
    form: OutputForm, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "print('\x1b[2J\x1b]0;title\x07')"
    asked = AskedQuestion("?", hostile, [hostile], ["\x1b[2J"], [], ANSWERED_CODE, session="")
    print_answer(asked, form, is_quiet=False)
    captured = capsys.readouterr()
    assert "print(" in captured.out
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", captured.out + captured.err)


# A session that may cost only so much: whoever calls a model, the limit is not passed.


def priced(text: str, cost: float | None = 0.4, **fields: Any) -> dict[str, Any]:
    return {
        "text": text,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cost": cost},
        "repeat": True,
        **fields,
    }


def paid(it: Opened) -> float:
    return float(sum(record.cost for record in it.store.of(tags.USAGE)))


def test_question_costs_add_up_and_the_session_continues(open_session: OpenSession) -> None:
    it = open_session(priced("Yes."), max_usd=1.0)
    for number in range(1, 4):
        it.session.submit("ask", f"question {number}")
    assert it.store.wait(tags.NOTICE, level="error").text == TOO_COSTLY
    it.store.wait(tags.AGENT, state="failed", turn=3)
    assert paid(it) == pytest.approx(0.8)
    printed = it.run("usage()").text
    assert "\nquestion 2" in printed, "a line for each, without print() as well"
    assert "question 3" not in printed
    assert "$0.2000 is left" in printed


def test_too_expensive_check_is_skipped(open_session: OpenSession) -> None:
    it = open_session(
        priced("```python\nx = 1\n```"), max_usd=0.5, approval="auto", reflection="always"
    )
    it.session.submit("ask", "make x")
    it.store.wait(tags.AGENT, turn=1, state="failed")
    assert (
        "The check of the result failed (The model was not asked: the call could cost up to $0.4000"
        in "\n".join(record.text for record in it.store.of(tags.NOTICE))
    )
    assert paid(it) == pytest.approx(0.4)


def test_a_search_and_a_question_share_the_limit(open_session: OpenSession) -> None:
    it = open_session(priced("fine"), max_usd=1.0)
    it.ask_and_wait("one")
    assert (
        "The model was not asked: the call could cost up to $0.4000"
        in it.run("rlm('what?', 'a text')", "rlm('what else?', 'a text')").text
    )
    assert paid(it) == pytest.approx(0.8)
    table = it.session.spending.table()
    assert "question 1" in table
    assert "search what?" in table


def test_search_parts_wait_for_reserved_budget(open_session: OpenSession) -> None:
    dear = priced("unused", 0.5, match="no question has this", repeat=False)
    root = priced(
        "```python\nFINAL(' '.join(rlm_map('read', partition(8))))\n```",
        0.01,
        match="Go through",
        repeat=False,
    )
    it = open_session(dear, root, priced("fine", 0.01, match="read"), max_usd=0.7)
    output = it.run("rlm('Go through', '\\n'.join(f'line {n}' for n in range(9_000)))")
    assert output.text == " ".join(["fine"] * 8) + "\n"
    assert paid(it) == pytest.approx(0.09)


def test_cost_of_a_resumed_session_counts(open_session: OpenSession) -> None:
    past = [made(tags.USAGE, "", {"model": "replay", "cost": 0.8, "source": "agent", "turn": 1})]
    it = open_session(priced("Yes."), max_usd=1.0, past=past)
    it.session.submit("ask", "one")
    assert it.store.wait(tags.NOTICE, level="error").text == TOO_COSTLY


def test_a_model_of_unknown_price_is_refused(open_session: OpenSession) -> None:
    it = open_session(priced("Yes.", None), max_usd=1.0)
    it.session.submit("ask", "one")
    sentence = "The price of replay is unknown, so the limit of $1.00 (max_usd) cannot be enforced. Choose another model."
    assert it.store.wait(tags.NOTICE, level="error").text == sentence
    assert not it.store.of(tags.USAGE)


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with serving() as service:
        for name, value in (
            ("OPENAI_API_KEY", "no-secret"),
            ("OPENAI_BASE_URL", f"{service.url}/v1"),
            ("OPENAI_API_BASE", f"{service.url}/v1"),
            ("NO_PROXY", "127.0.0.1"),
        ):
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        yield service


def test_headless_question_that_could_cost_too_much_is_not_sent(
    openai: Service, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai.replies = [OPENAI.reply("Forty-two.")]
    assert ask("openai:gpt-4o", max_usd=0.01) == FAILED_CODE
    assert "The model was not asked: the call could cost up to $0.0" in capsys.readouterr().err
    assert openai.asked == []
    assert ask("openai:gpt-4o", max_usd=0.2) == ANSWERED_CODE
    assert capsys.readouterr().out == "Forty-two.\n"
    assert openai.asked[0]["max_completion_tokens"] == 8_192, (
        "an answer is bounded, so that its cost is known"
    )
    assert ask("openai:gpt-4o") == ANSWERED_CODE
    assert "max_completion_tokens" not in openai.asked[1], "without a limit it is not"


def test_headless_service_failure_gives_one_sentence(
    openai: Service, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai.replies = [refusing(401, "Incorrect\x1b]52;c;aGFja2Vk\x07 API key\x1b[2J provided.")]
    assert ask("openai:gpt-4o") == FAILED_CODE
    errors = capsys.readouterr().err
    assert errors.splitlines() == [
        "mahtab-tui: The key was not accepted: Incorrect API key provided. Check OPENAI_API_KEY."
    ]
