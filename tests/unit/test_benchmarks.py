"""Benchmarks of answers and searches: their tasks have answers, which their rules find."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from mahtab_tui import manual
from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.worker.rlm.answers import SearchUsage
from mahtab_tui.worker.rlm.search import SearchFailed
from tests.benchmarks.answers.baseline import Baseline
from tests.benchmarks.answers.dabench import dabench_items, share_right
from tests.benchmarks.answers.fresh_questions import FRESH_QUESTIONS
from tests.benchmarks.answers.items import (
    DEVELOP,
    FRESH,
    JUDGE,
    half_of,
    items_of,
    own_items,
    select,
)
from tests.benchmarks.answers.outcome import Outcome
from tests.benchmarks.answers.program import outcome_of
from tests.benchmarks.answers.questions import (
    CONVERSATIONS,
    FOLLOW_UP,
    KINDS,
    NO_CODE,
    SINGLE,
    TWO_STEPS,
    Question,
)
from tests.benchmarks.answers.report import (
    MANUAL_HEADING,
    load,
    make_row,
    mcnemar,
    print_changes,
    print_report,
    save,
)
from tests.benchmarks.answers.run import NoServer, ask_all, main
from tests.benchmarks.answers.scoring import All, Check, Date, Names, Number, Words
from tests.benchmarks.answers.tables import Tables, read_tables, write_tables
from tests.benchmarks.quality.forms import form_tasks, run_form_task
from tests.benchmarks.quality.policies import POLICIES, SKILLS, read
from tests.benchmarks.quality.score import HEADING, Score, row, score
from tests.benchmarks.quality.tasks import KINDS as SEARCH_KINDS
from tests.benchmarks.quality.tasks import TextQuestion, make
from tests.benchmarks.search_kinds import kind_tasks
from tests.ports import free_port
from tests.services import Reply, serving

QUESTIONS = [question for conversation in CONVERSATIONS for question in conversation]
FRESH_ONES = [question for conversation in FRESH_QUESTIONS for question in conversation]
COMPUTED = [question for question in [*QUESTIONS, *FRESH_ONES] if question.kind != NO_CODE]
"""Questions whose answers pandas computes."""
CARS: Tables = {
    "cars": pd.DataFrame(
        {"origin": ["USA", "Japan", "IN"], "name": ["ford pinto", "ford pinto (sw)", "vw"]}
    )
}
ORIGIN = Names("cars.origin", {"America": "USA"})
NAME = Names("cars.name")
SHARE = Number(0, percent=True)

REPLIES = [
    "Here:\n```python\nprint(len(cars))\n```\nand\n```python\n1 / 0\n```",
    "```python\nprint(cars['mpg'])\n```",
    "In words.",
]

TASK = TextQuestion("needle", "Where?", "0123456789", int, 7, ((2, 4), (6, 8)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.mark.parametrize(
    ("check", "expected", "text", "stated"),
    [
        (Number(), 3113, "There are 3,113 airports.", True),
        (Number(), 3113, "3113.0", True),
        (Number(), 6, "Six cars have no horsepower.", True),
        (Number(), 6, "There are 16 or 60.", False),
        (Number(), 64, "dtype: int64", False),
        (Number(), 7, "2009-12-07 and x7", True),
        (Number(), 7, "It rises from 5-17", False),
        (Number(1), 27.891, "About 27.9 miles", True),
        (Number(1), 27.891, "About 28 miles", False),
        (Number(1), -3.3, "It was −3.3 degrees.", True),
        (Number(1), -3.3, "It was 3.3 degrees.", False),
        (Number(1), -3.3, "It fell by 3.3 degrees.", True),
        (Number(1), 3.3, "It fell by -3.3 degrees.", True),
        (Number(1), -3.3, "It fell in 2009, and rose by 3.3 degrees.", False),
        (Number(0), 3372.7, "$3,373", True),
        (Number(2), 0.8717, "r=.87", True),
        (Number(), 5, " ".join(map(str, range(20))), False),
        (SHARE, 0.4264, "42.64 % of the days", True),
        (SHARE, 0.4264, "43%", True),
        (SHARE, 0.4264, "a share of 0.426", True),
        (SHARE, 0.4264, "41%", False),
        (ORIGIN, "USA", "Most come from the usa, fewer from Japan.", True),
        (ORIGIN, "USA", "Japan 1\nUSA 2", False),
        (ORIGIN, "USA", "America, in most cases", True),
        (ORIGIN, "USA", "none of them", False),
        (NAME, "ford pinto (sw)", "The Ford Pinto (sw).", True),
        (NAME, "ford pinto", "the ford pinto (sw)", False),
        (NAME, ["vw", "ford pinto"], "ford pinto and vw", True),
        (NAME, ["vw", "ford pinto"], "ford pinto, vw, ford pinto (sw)", False),
        (Date(), "2012-12-17", "on December 17th, 2012", True),
        (Date(), "2012-12-17", "on 17 Dec 2012", True),
        (Date(), "2012-12-17", "2012/12/17", True),
        (Date(), "2012-12-17", "12/17/2012", True),
        (Date(), "2012-12-17", "2012-12-17 00:00:00", True),
        (Date(), "2012-12-17", "December 2012", False),
        (Date(), "2012-12-17", "2012-12-18", False),
        (Date(month=True), "2009-03-01", "March of 2009", True),
        (Date(month=True), "2009-03-01", "2009-03", True),
        (Date(month=True), "2009-03-01", "2009-01-01 2009-02-01 2009-03-01 2009-04-01", False),
        (Words(), [("column", "key"), ("not exist",)], "That column does not exist.", True),
        (Words(), [("column", "key"), ("not exist",)], "The monkey does not exist.", False),
        (All((ORIGIN, Number(0))), ("Japan", 99.8), "Japan, with 100 on average", True),
        (All((ORIGIN, Number(0))), ("Japan", 99.8), "Japan, with 90 on average", False),
    ],
)
def test_an_answer_is_found_in_words(check: Check, expected: Any, text: str, stated: bool) -> None:
    assert check.states(text, expected, CARS) is stated


def test_each_kind_has_enough_questions() -> None:
    counts = Counter(question.kind for question in QUESTIONS)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 10
    assert len({question.name for question in QUESTIONS}) == len(QUESTIONS) >= 48


def test_fresh_questions_stand_alone_and_share_no_text_or_name_with_the_halves() -> None:
    assert len(FRESH_ONES) == len(FRESH_QUESTIONS) == 40
    assert {question.kind for question in FRESH_ONES} == {SINGLE, TWO_STEPS}
    for field in ("name", "text"):
        fresh_values = {getattr(question, field) for question in FRESH_ONES}
        assert len(fresh_values) == len(FRESH_ONES)
        assert fresh_values.isdisjoint(getattr(question, field) for question in QUESTIONS)


def test_fresh_questions_are_asked_only_as_a_set_of_their_own(folder: Path) -> None:
    names = {
        question_set: {item.name for talk in items_of(question_set, folder) for item in talk}
        for question_set in (None, DEVELOP, JUDGE, FRESH)
    }
    assert names[FRESH] == {question.name for question in FRESH_ONES}
    assert names[None] == names[DEVELOP] | names[JUDGE]
    assert names[None].isdisjoint(names[FRESH])


def test_dabench_has_no_fresh_questions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no fresh questions"):
        dabench_items(tmp_path, 1, tmp_path, FRESH)


@pytest.mark.parametrize("question", COMPUTED, ids=lambda candidate: candidate.name)
def test_question_does_not_give_away_its_answer(question: Question, folder: Path) -> None:
    tables = read_tables(write_tables(question.tables, folder))
    expected = question.expected(tables)
    values = expected if isinstance(expected, list | tuple) else [expected]
    assert not any(pd.isna(value) or value == 0 for value in values)
    assert question.check.states(f"The answer is {', '.join(map(str, values))}.", expected, tables)
    assert not question.check.states(question.text, expected, tables)


def near_miss(check: Check, value: Any, tables: Tables) -> Any:
    """Return a wrong value that is as close to the right one as the check has to tell apart."""
    match check:
        case Number(percent=True):
            return value + 0.02
        case Number(decimals=None):
            return value + 1
        case Number(decimals=int(decimals)):
            return value + 2 * 10**-decimals
        case Date(month=is_month):
            return pd.Timestamp(value) + pd.Timedelta(days=31 if is_month else 1)
        case Names(column=column):
            table, _, column_name = column.partition(".")
            right_names = [value] if isinstance(value, str) else value
            return next(name for name in tables[table][column_name] if name not in right_names)
    raise AssertionError(f"no wrong value is known for {check}")


@pytest.mark.parametrize("question", COMPUTED, ids=lambda candidate: candidate.name)
def test_answer_beside_the_right_one_is_refused(question: Question, folder: Path) -> None:
    tables = read_tables(write_tables(question.tables, folder))
    expected = question.expected(tables)
    checks = question.check.checks if isinstance(question.check, All) else [question.check]
    values = list(expected) if isinstance(question.check, All) else [expected]
    for index, check in enumerate(checks):
        stated_values = list(values)
        stated_values[index] = near_miss(check, values[index], tables)
        text = f"The answer is {', '.join(map(str, stated_values))}."
        assert not question.check.states(text, expected, tables), text


def test_an_explanation_counts_only_if_no_code_ran(folder: Path) -> None:
    ((item,),) = select(own_items(folder), only=["which variable"])
    words = "The cars are in `auto_mpg`."
    assert item.score(Outcome(words)) == 1
    assert item.score(Outcome(words, codes=["auto_mpg"])) == 0
    assert item.score(Outcome("They are in iris.")) == 0


def test_a_follow_up_is_asked_after_what_it_follows(folder: Path) -> None:
    conversations = own_items(folder)
    ((first_question, second_question),) = select(conversations, only=["of japan"])
    assert (first_question.name, second_question.kind) == ("horsepower", FOLLOW_UP)
    assert [
        len(conversation) for conversation in select(conversations, kind=FOLLOW_UP, limit=6)
    ] == [5, 1]


def test_each_conversation_and_kind_is_halved(folder: Path) -> None:
    conversations = own_items(folder)
    develop, judge = (half_of(conversations, half) for half in (DEVELOP, JUDGE))

    assert all((talk in develop) != (talk in judge) for talk in conversations)
    for kind in KINDS:
        counts = [sum(talk[-1].kind == kind for talk in half) for half in (develop, judge)]
        assert 0 <= counts[0] - counts[1] <= 1


def test_dabench_is_halved_by_its_ids(tmp_path: Path) -> None:
    question_fields = {
        "question": "Mean?",
        "constraints": "",
        "format": "@mean[x]",
        "level": "easy",
    }
    (tmp_path / "da-dev-tables").mkdir()
    (tmp_path / "da-dev-tables" / "a.csv").write_text("a\n1\n")
    questions = [
        {"id": number, "file_name": "a.csv", **question_fields} for number in (0, 5, 6, 7, 8)
    ]
    labels = [{"id": number, "common_answers": [["mean", "1"]]} for number in range(9)]
    for name, rows in (("questions", questions), ("labels", labels)):
        (tmp_path / f"da-dev-{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))

    halves = [dabench_items(tmp_path, 2, tmp_path, half)[0] for half in (DEVELOP, JUDGE)]

    names = [[item.name for (item,) in half] for half in halves]
    assert names == [["dabench 0", "dabench 8"], ["dabench 5"]]


def test_mcnemar_is_exact() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(3, 3) == 1
    assert mcnemar(6, 0) == mcnemar(0, 6) == pytest.approx(2 / 64)
    assert mcnemar(8, 1) == pytest.approx(2 * 10 / 512)


def test_dabench_is_scored_by_its_rules(tmp_path: Path) -> None:
    labels = {"mean": "34.650", "trend": "rising"}
    assert share_right("@mean[34.65] and @trend[rising]", labels) == 1
    assert share_right("@mean[34.65], @trend[falling]", labels) == 0.5
    assert share_right("mean 34.65", labels) == 0
    question_fields = {
        "question": "Mean?",
        "constraints": "None.",
        "format": "@mean[x]",
        "level": "easy",
    }
    lines = [
        {"id": number, "file_name": f"{number} a.csv", **question_fields} for number in range(4)
    ]
    answers = [{"id": number, "common_answers": [["mean", "2"]]} for number in range(4)]
    for name, rows in (("questions", lines), ("labels", answers)):
        (tmp_path / f"da-dev-{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "da-dev-tables").mkdir()
    (tmp_path / "da-dev-tables" / "2 a.csv").write_bytes("größe\n2\n".encode("latin-1"))
    items, skipped = dabench_items(tmp_path, 2, tmp_path)
    assert skipped == 1  # question 0 has no table
    ((item,),) = items
    assert (item.files[0].name, item.files[0].read_text("utf-8")) == ("table_2_a.csv", "größe\n2\n")
    assert item.score(Outcome("@mean[2.0]")) == 1


def test_records_are_counted() -> None:
    usage: dict[str, Any] = {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 4}
    turn_records: list[Record] = [
        records.Usage(source="agent", **usage),
        records.AssistantReplIn("1 + 1"),
        records.AssistantReplOut("2"),
        records.AssistantReplIn("1 + 1\n"),
        records.Usage(source="embedding", **usage),
        records.Usage(source="agent", **usage),
        records.AssistantChat("It is 2."),
    ]
    outcome = outcome_of(turn_records)
    assert (outcome.calls, outcome.read, outcome.written) == (2, 20, 6)
    assert (outcome.cached, outcome.repeated) == (8, 1)
    assert [kind for kind, _ in outcome.transcript] == ["code", "output", "code", "answer"]
    assert Outcome("The code is correct.").speaks_of_code
    assert not Outcome("The US code of Ohio is OH.").speaks_of_code


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """URL of a server that gives the replies in order, and the bodies of its requests."""
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    with serving() as service:
        for text in REPLIES:
            choices = [{"message": {"role": "assistant", "content": text}}]
            body = {"choices": choices, "usage": usage, "timings": {"cache_n": 4}}
            service.replies.append(Reply([json.dumps(body).encode()]))
        yield service.url, service.asked


def test_the_baseline_runs_the_first_block_and_remembers_its_output(
    server: tuple[str, list[Any]], folder: Path
) -> None:
    url, requests = server
    talk = Baseline(url, "any", 60.0, write_tables(["cars"], folder))
    first_turn, second_turn, third_turn = (
        talk.ask(text) for text in ("How many?", "And the mpg?", "Thanks.")
    )
    assert (first_turn.answer, first_turn.codes, first_turn.failure, first_turn.cached) == (
        "406",
        ["print(len(cars))\n"],
        "",
        4,
    )
    assert second_turn.answer == second_turn.failure == "KeyError: 'mpg'"
    assert (third_turn.answer, third_turn.codes) == ("In words.", [])
    assert "Miles_per_Gallon" in requests[0]["messages"][1]["content"]
    later = [entry["content"] for entry in requests[1]["messages"][3:]]
    assert later == ["It printed: 406", "And the mpg?"]
    assert {entry["temperature"] for entry in requests} == {0}


def test_two_runs_are_compared(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((item,),) = select(own_items(folder), only=["japan"])
    rows = [make_row("baseline", item, Outcome("79 cars", read=10, cached=5))]
    path = "rows.json"
    save(rows, tmp_path / path)
    earlier = load(tmp_path / path)
    print_report(earlier)
    (share,) = (line for line in capsys.readouterr().out.splitlines() if "cache" in line)
    assert share.endswith(" 50%")
    print_changes(earlier, [make_row("baseline", item, Outcome("80 cars"))])
    printed = capsys.readouterr().out
    assert "1 -> 0 right" in printed
    assert "now wrong: japan (expected 79)" in printed


def test_bench_writes_a_row_of_the_manuals_table(
    server: tuple[str, list[Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.benchmarks.answers.run.find_model", lambda url, model=None: "a/b-q4")
    monkeypatch.setattr("os.environ", dict(os.environ))  # the benchmark removes a person's set-up
    options = ["--url", server[0], "--program", "baseline", "--only", "models"]

    main([*options, "--server-pid", str(os.getpid())])

    row = capsys.readouterr().out.splitlines()[-1]
    model, questions, right, bare, seconds, _, memory, *_ = row.strip("| ").split(" | ")
    assert (model, questions, right, bare, seconds) == ("b-q4", "own", "-", "0 of 1", "-")
    assert int(memory.removesuffix(" MiB").replace(",", "")) > 10
    page = (Path(manual.__file__).with_name("local.md")).read_text("utf-8")
    section = page.partition("## Which model?")[2].partition("\n## ")[0]
    heading, rule, *rows = re.findall(r"(?m)^\|.*", section)
    assert heading == MANUAL_HEADING
    for line in (rule, row, *rows):
        assert line.count("|") == heading.count("|"), line


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("question_set", "name", "question_text"),
    [(JUDGE, "models", "How many different"), (FRESH, "station wagons", "marked with")],
)
def test_set_to_judge_by_shows_and_keeps_no_answer(
    question_set: str,
    name: str,
    question_text: str,
    server: tuple[str, list[Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.benchmarks.answers.run.find_model", lambda url, model=None: "any")
    monkeypatch.setattr("os.environ", dict(os.environ))  # the benchmark removes a person's set-up
    path = tmp_path / "rows.json"
    options = ["--url", server[0], "--program", "baseline", "--verbose"]

    main([*options, "--half", question_set, "--only", name, "--json", str(path)])

    # The port of the server may have the digits of the answer.
    printed = capsys.readouterr().out.replace(server[0], "")
    (row,) = load(path)
    assert not row.right
    assert "1 questions asked" in printed
    assert "0 of 1" in printed
    for text in (row.name, question_text, "406"):
        assert text not in printed
    assert not any((row.question, row.expected, row.answer, row.failure))
    assert not row.codes
    assert not row.transcript
    # Not the answer, whose digits the measured seconds may have.
    for text in (question_text, "len(cars)"):
        assert text not in path.read_text("utf-8")
    print_changes([row], [row], with_answers=False)
    assert "0 became right, 0 wrong: p = 1.000" in capsys.readouterr().out


def test_answer_without_a_server_does_not_count_as_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(NoServer):
        next(ask_all("baseline", select(own_items(folder), only=["japan"]), url, "any", 60.0))
    with pytest.raises(SystemExit) as raised:
        main(["--url", url])
    assert raised.value.code == 2
    assert "llama-server -m model.gguf" in capsys.readouterr().err


# Searches with known answers.


def answer(value: object, *spans: tuple[int, int]) -> Any:
    return lambda *args, **options: SimpleNamespace(
        value=value, state="answered", usage=SearchUsage(3, 400, 0.5, 1.0), spans=spans
    )


@pytest.mark.parametrize("kind", SEARCH_KINDS)
@pytest.mark.parametrize("megabytes", [0.05, 0.3])
def test_task_is_reproducible_and_its_evidence_is_whole_lines(kind: str, megabytes: float) -> None:
    task = make(kind, megabytes)
    assert task == make(kind, megabytes)
    assert abs(len(task.text) - megabytes * 1e6) < 500
    assert task.spans == tuple(sorted(task.spans))
    for start, end in task.spans:
        assert task.text[end - 1] == "\n"
        assert start == 0 or task.text[start - 1] == "\n"


@pytest.mark.parametrize("kind", SEARCH_KINDS)
def test_answer_follows_only_from_the_evidence(kind: str) -> None:
    task = make(kind, 0.1)
    skill = SKILLS[kind]
    code = f"import json, re\nvalues = json.loads(said)\nfound = {skill.combine}"
    for text in (task.text, "".join(task.text[start:end] for start, end in task.spans)):
        names = {"said": read(skill, text)}
        exec(code, names)
        assert names["found"] == task.answer


def test_every_policy_has_code_for_every_skill() -> None:
    for codes in POLICIES.values():
        for skill in SKILLS.values():
            for code in codes(skill)[-1:]:
                compile(code, "code", "exec")


def test_answer_is_scored_against_the_known_one_and_its_evidence() -> None:
    done = score(TASK, answer(7, (3, 7)), (SearchFailed,))
    assert done[:5] == (True, "answered", 3, 400, 0.5)
    assert (done.precision, done.recall) == (0.5, 0.5)
    assert score(TASK, answer(8), (SearchFailed,))[0] is False
    assert score(TASK, answer(8), (SearchFailed,)).precision is None
    text = TASK._replace(returns=str, answer="AB-1")
    assert score(text, answer(" AB-1\n"), (SearchFailed,)).exact
    assert not score(text, answer("It is AB-1."), (SearchFailed,)).exact


def test_search_without_an_answer_fails_and_the_rest_continues() -> None:
    def search(*args: object, **options: object) -> Any:
        raise SearchFailed("no")

    done = score(TASK, search, (SearchFailed,))
    assert (done.exact, done.state, done.recall) == (False, "failed", 0.0)


def test_table_columns_are_aligned() -> None:
    line = row(TASK, 0.1, Score(True, "answered", 12_345, 1_234_567, 12.5, 100.25, 0.5, 1.0, 1.0))
    assert len(line) == len(HEADING)
    assert line.index("12,345") + 6 == HEADING.index("calls") + 5


def test_prepared_model_answers_each_form() -> None:
    for task, code in islice(form_tasks(), 3):
        done = run_form_task(task, code)
        assert (task.kind, done.exact) == (task.kind, True)
        assert done.recall > 0.9 or task.kind == "choice"  # a letter quotes nothing


def test_searches_of_both_halves_are_of_the_same_kinds_over_other_texts() -> None:
    develop, judge = ([*kind_tasks(to_judge_by=half)] for half in (False, True))
    kinds = [sorted(task.name.split()[1] for task in half) for half in (develop, judge)]
    assert kinds[0] == kinds[1]
    assert len(kinds[0]) == 21
    assert not {task.text for task in develop} & {task.text for task in judge}


def test_numbers_of_searches_are_in_no_line_and_words_are_in_one() -> None:
    for task in [*kind_tasks(to_judge_by=False), *kind_tasks(to_judge_by=True)]:
        lines = [line for line in task.text.splitlines() if str(task.answer) in line]
        if isinstance(task.answer, str):
            assert lines, task.name
        elif task.name.endswith("sum"):
            assert not lines, task.name
