"""The public questions of InfiAgent-DABench, from a folder of the user's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.benchmarks.answers.items import Item
from tests.benchmarks.answers.outcome import Outcome

_ANSWER = re.compile(r"@(\w+)\[(.*?)\]")


def share_right(answer: str, labels: dict[str, str]) -> float:
    """Return the share of the values that an answer states, each exactly or as an equal number."""
    found = dict(_ANSWER.findall(answer))
    right = [_is_equal(found.get(name, ""), value) for name, value in labels.items()]
    return sum(right) / len(labels)


def _is_equal(found: str, value: str) -> bool:
    if found == value:
        return True
    try:
        return abs(float(found) - float(value)) < 1e-6
    except ValueError:
        return False


def dabench_items(folder: Path, every: int, work: Path) -> tuple[list[list[Item]], int]:
    """Return every n-th question, and the number of those without a table. work: for the tables."""
    labelled = _lines(folder / "da-dev-labels.jsonl")
    labels = {each["id"]: dict(each["common_answers"]) for each in labelled}
    items, skipped = [], 0
    for asked in _lines(folder / "da-dev-questions.jsonl")[::every]:
        table = folder / "da-dev-tables" / asked["file_name"]
        if table.is_file() and asked["id"] in labels:
            items.append([_item(asked, labels[asked["id"]], _copy(table, work))])
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


def _item(asked: dict[str, Any], labels: dict[str, str], file: Path) -> Item:
    text = f"{asked['question']}\n{asked['constraints']}\nGive the answer in this format: {asked['format']}"

    def score(outcome: Outcome) -> float:
        return share_right(outcome.answer, labels)

    expected = ", ".join(f"@{name}[{value}]" for name, value in labels.items())
    return Item(f"dabench {asked['id']}", asked["level"], text, [file], expected, score)
