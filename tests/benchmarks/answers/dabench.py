"""The public questions of InfiAgent-DABench, from a folder of the user's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.benchmarks.answers.items import DEVELOP, FRESH, Item, QuestionSet
from tests.benchmarks.answers.outcome import Outcome

_ANSWER = re.compile(r"@(\w+)\[(.*?)\]")


def share_right(answer: str, labels: dict[str, str]) -> float:
    """Return the share of the values that an answer states, each exactly or as an equal number."""
    stated_values = dict(_ANSWER.findall(answer))
    right = [_is_equal(stated_values.get(name, ""), value) for name, value in labels.items()]
    return sum(right) / len(labels)


def _is_equal(stated_value: str, value: str) -> bool:
    if stated_value == value:
        return True
    try:
        return abs(float(stated_value) - float(value)) < 1e-6
    except ValueError:
        return False


def dabench_items(
    folder: Path, every: int, work: Path, half: QuestionSet | None = None
) -> tuple[list[list[Item]], int]:
    """Return every n-th question, and the number of those without a table.

    Args:
        work: The folder for the tables.
        half: Questions with even ids are to develop with, the others to judge by; None: all.

    Raises:
        ValueError: The fresh set is asked for, which has no question of DABench.
    """
    if half == FRESH:
        raise ValueError("DABench has no fresh questions; leave out --half or --dabench")
    labelled = _lines(folder / "da-dev-labels.jsonl")
    labels = {
        labelled_question["id"]: dict(labelled_question["common_answers"])
        for labelled_question in labelled
    }
    items = []
    skipped = 0
    questions = _lines(folder / "da-dev-questions.jsonl")
    if half is not None:
        remainder = 0 if half == DEVELOP else 1
        questions = [question for question in questions if question["id"] % 2 == remainder]
    for question_fields in questions[::every]:
        table = folder / "da-dev-tables" / question_fields["file_name"]
        if table.is_file() and question_fields["id"] in labels:
            items.append(
                [_item(question_fields, labels[question_fields["id"]], _copy(table, work))]
            )
        else:
            skipped += 1
    return items, skipped


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def _copy(table: Path, work: Path) -> Path:
    data = table.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    name = re.sub(r"\W+", "_", table.stem, flags=re.ASCII).strip("_")
    copy = work / (f"{name}.csv" if name[:1].isalpha() else f"table_{name}.csv")
    copy.write_text(text, encoding="utf-8", newline="")
    return copy


def _item(question: dict[str, Any], labels: dict[str, str], file: Path) -> Item:
    text = f"{question['question']}\n{question['constraints']}\nGive the answer in this format: {question['format']}"

    def score(outcome: Outcome) -> float:
        return share_right(outcome.answer, labels)

    expected = ", ".join(f"@{name}[{value}]" for name, value in labels.items())
    return Item(f"dabench {question['id']}", question["level"], text, [file], expected, score)
