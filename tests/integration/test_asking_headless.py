"""A question without a screen, where nobody is there who could approve code."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.cli.headless import (
    ANSWERED,
    FAILED,
    REFUSED,
    RecordPrinter,
    _print_answer,
    ask_once,
)
from mahtab_tui.session.loading import inspect_files
from mahtab_tui.settings.model import load_settings

CODE = "open('made', 'w')"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """One that answers with code, and in words when that was refused."""
    answers = [{"text": f"```python\n{CODE}\n```"}, {"text": "In words.", "repeat": True}]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    return f"replay:{path}"


def test_unapproved_code_is_printed_and_not_run(
    model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert ask_once("Make it.", load_settings(model=model), [], as_json=False) == REFUSED
    captured = capsys.readouterr()
    assert captured.out == "", "the model is not asked again"
    assert (
        captured.err
        == f"mahtab-tui: Not run: no one is here to approve it (--approval auto runs it):\n{CODE}\n"
    )
    assert not (project / "made").exists()


def test_code_reading_input_gets_end_of_file(
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    code = "import getpass, sys\nprint(repr(sys.stdin.readline()))\nfor read in getpass.getpass, input:\n    try: read()\n    except EOFError: print('none')\nbreakpoint()"
    answer = {"text": f"```python\n{code}\n```", "repeat": True}
    (tmp_path / "reads.jsonl").write_text(json.dumps(answer))
    settings = load_settings(
        model=f"replay:{tmp_path / 'reads.jsonl'}", approval="auto", reflection="never"
    )
    ask_once("Read.", settings, [], as_json=False)
    err = capsys.readouterr().err
    assert "''\n" in err
    assert err.count("\nnone\n") == 2
    assert "(Pdb)" in err


def test_code_is_not_run_when_changes_cannot_be_reviewed(
    model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert (
        ask_once("Make it.", load_settings(model=model, approval="review"), [], as_json=False)
        == REFUSED
    )
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert (
        first
        == "mahtab-tui: Changes cannot be reviewed without a screen, so the model's code waits for approval before it runs."
    )
    assert second.startswith("mahtab-tui: Not run: no one is here to approve it")
    assert not (project / "made").exists()


def test_unapproved_code_is_an_event_in_json(
    model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert ask_once("Make it.", load_settings(model=model), [], as_json=True) == REFUSED
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [CODE in event["text"] for event in events if event["tag"] == "notice"] == [True]


def test_pre_approved_code_runs(
    model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert (
        ask_once(
            "Make it.",
            load_settings(model=model, approval="auto", reflection="never"),
            [],
            as_json=False,
        )
        == ANSWERED
    )
    assert (project / "made").exists()
    assert "approve" not in capsys.readouterr().err


@pytest.mark.parametrize("approval", ["ask", "review", "auto"])
def test_code_with_hidden_characters_is_not_run(
    approval: str,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = [
        {"text": f"```python\n'\x1bP'\n{CODE}\n'\x1b\\'\n```"},
        {"text": "In words.", "repeat": True},
    ]
    (tmp_path / "hiding.jsonl").write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    settings = load_settings(
        model=f"replay:{tmp_path / 'hiding.jsonl'}", approval=approval, reflection="never"
    )
    assert ask_once("Make it.", settings, [], as_json=False) == ANSWERED
    captured = capsys.readouterr()
    assert captured.out == "In words.\n"
    assert "was not run. Line 1 contains the character U+001B" in captured.err
    assert not (project / "made").exists()


def test_hidden_characters_of_code_are_made_visible(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "'\u200b'\u2028# \x0c\n1"
    (tmp_path / "hidden.jsonl").write_text(
        f"{json.dumps({'text': f'```python{chr(10)}{code}{chr(10)}```', 'repeat': True})}\n"
    )
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    for approval in ("ask", "auto"):
        ask_once(
            "Make it.",
            load_settings(
                model=f"replay:{tmp_path / 'hidden.jsonl'}", approval=approval, reflection="never"
            ),
            [],
            as_json=False,
        )
        mark = ">>> " if approval == "auto" else ""
        assert f"{mark}'⟨U+200B⟩'⟨U+2028⟩# ␌\n{mark}1\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("how many orders have no price?", ANSWERED),
        ("write a poem about the moon", FAILED),
        ("mean of weight in orders", FAILED),
    ],
)
def test_demo_without_an_answer_is_a_failure(
    question: str,
    code: int,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "orders.csv").write_text("id,price\n1,10\n2,\n")
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert (
        ask_once(
            question,
            load_settings(model="demo", approval="auto"),
            inspect_files([project / "orders.csv"]),
            as_json=False,
        )
        == code
    )
    captured = capsys.readouterr()
    if code == FAILED:
        assert captured.out == ""
        assert "mahtab-tui: The" in captured.err
    else:
        assert "1 of 2 rows have no price" in captured.out


@pytest.mark.parametrize("as_json", [False, True])
def test_uncomputed_figures_are_named(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    printer, log = RecordPrinter(as_json=as_json), logging.Logger("asked")
    log.addHandler(printer)
    figures = (
        AnswerFigure("8", True, 3),
        AnswerFigure("10", False),
        AnswerFigure('"a\x1b[2Jb"', False),
    )
    records.emit(log, records.AssistantChat('8, 10, "a\x1b[2Jb"', turn=1, step=0, figures=figures))
    if as_json:
        attrs = json.loads(capsys.readouterr().out)["attrs"]
        assert attrs["figures"][:2] == [
            {"text": "8", "found": True, "cell": 3},
            {"text": "10", "found": False},
        ]
    else:
        _print_answer("8, 10", printer.uncomputed)
        assert capsys.readouterr() == ("8, 10\n", 'mahtab-tui: not computed: 10, "ab"\n')
