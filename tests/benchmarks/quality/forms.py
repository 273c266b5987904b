"""Twenty questions about long documents, each to be answered in a given form, with evidence."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pydoc_data.topics import topics
from random import Random
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from mahtab_tui.search.api import rlm
from mahtab_tui.worker.rlm.search import SearchFailed
from tests.benchmarks.quality.score import Score, mean, score
from tests.benchmarks.quality.tasks import Span, TextQuestion
from tests.recursion_scripts import ScriptedModel, query_of

ITEMS = 20
_MODULES = ("argparse", "ast", "asyncio.base_events", "dataclasses", "inspect", "pathlib", "typing")
_COPY = "Copy the lines of this part that contain the word, without any change: "
_LETTERS = "ABCD"


def documents() -> dict[str, str]:
    """Make two documents of about 0.7 and 0.6 million characters."""
    sources = (inspect.getsource(import_module(name)) for name in _MODULES)
    return {
        "reference": "\n\n".join(f"# {name}\n{topics[name]}" for name in sorted(topics)),
        "sources": "\n\n".join(sources),
    }


def form_tasks() -> Iterator[tuple[TextQuestion, str]]:
    """Make the questions, each with the code of the model that answers it."""
    texts = documents()
    for number in range(ITEMS):
        random = Random(f"form {number}")
        name, other_name = sorted(texts, reverse=bool(number % 2))
        text = texts[name]
        line, span = _unique_line(text, random)
        make = (_choice, _line, _rejoined)[number % 3]
        yield make(text, line, span, _unique_line(texts[other_name], random)[0])


def _unique_line(text: str, random: Random) -> tuple[str, Span]:
    lines = text.split("\n")
    counts = Counter(line.strip() for line in lines)
    once = [line for line in lines if 30 < len(line) < 80 and counts[line.strip()] == 1]
    while True:
        line = random.choice(once).strip()
        if text.count(line) == text.count(line[:25]) == text.count(line[5:30]) == 1:
            start = text.index(line)
            return line, (start, start + len(line))


def _choice(text: str, line: str, span: Span, foreign: str) -> tuple[TextQuestion, str]:
    right = len(line) % 4
    options = [foreign, foreign[::-1], f"{foreign} {foreign}"]
    options.insert(right, line)
    listed = "\n".join(
        f"{letter}) {option}" for letter, option in zip(_LETTERS, options, strict=True)
    )
    question = f"Which of these lines does the text have?\n{listed}"
    form = Literal["A", "B", "C", "D"]
    return (
        TextQuestion("choice", question, text, form, _LETTERS[right], (span,)),
        f"import re\noptions = {options!r}\nfound = [grep(re.escape(line)) for line in options]\n"
        f"FINAL(next(letter for letter, hits in zip({_LETTERS!r}, found) if hits))",
    )


def _line(text: str, line: str, span: Span, _foreign: str) -> tuple[TextQuestion, str]:
    task = TextQuestion(
        "line", f"Give the line that begins with {line[:25]!r}.", text, str, line, (span,)
    )
    return task, f"import re\nhits = grep(re.escape({line[:25]!r}))\nFINAL(str(hits[0]).strip())"


def _rejoined(text: str, line: str, span: Span, _foreign: str) -> tuple[TextQuestion, str]:
    question = f"List the lines that contain {line[5:30]!r}."
    task = TextQuestion("rejoined", question, text, list[str], [line], (span,))
    code = (
        f"answers = llm_map({_COPY + line[5:30]!r}, partition(12))\n"
        "FINAL([line for answer in answers for line in answer.splitlines() if line])"
    )
    return task, code


def run_form_task(task: TextQuestion, code: str) -> Score:
    def reply(messages: Sequence[BaseMessage]) -> str:
        query = query_of(messages)
        if not query.startswith(_COPY):
            return f"```python\n{code}\n```"
        copied_text = query.removeprefix(_COPY)
        form = r"<search-text>\n(.*?)\n</search-text>"
        words = re.findall(form, str(messages[-1].content), re.DOTALL)[0]
        return "\n".join(line.strip() for line in words.splitlines() if copied_text in line)

    model = ScriptedModel(reply=reply)

    def search(question: str, text: str, returns: Any) -> Any:
        return rlm(question, text, returns=returns, model=model, yes=True)

    return score(task, search, (SearchFailed,))


def show_forms() -> None:
    """Print a line for each kind and one for all."""
    scores: dict[str, list[Score]] = {}
    for task, code in form_tasks():
        done = run_form_task(task, code)
        scores.setdefault(task.kind, []).append(done)
        if not done.exact:
            print(f"not exact: {json.dumps(task.question)} {done.state}")
    scores["all"] = [form_score for kind_scores in scores.values() for form_score in kind_scores]
    for kind, kind_scores in scores.items():
        precision = [
            form_score.precision for form_score in kind_scores if form_score.precision is not None
        ]
        print(
            f"{kind:<10}{sum(form_score.exact for form_score in kind_scores):>3} of {len(kind_scores):<3} exact"
            f"{sum(form_score.calls for form_score in kind_scores):>5} calls, precision"
            f" {mean(precision)}, recall {mean([form_score.recall for form_score in kind_scores])}"
            f" ({len(precision)} answers with evidence), {sum(form_score.seconds for form_score in kind_scores):.1f} s"
        )
