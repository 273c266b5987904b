"""The offline demo model answers a few kinds of questions by rules, and says so."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGenerationChunk

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.messages import message_text
from mahtab_tui.llm.prompts import (
    COMPUTE,
    LAST_CALL,
    PLAIN,
    QUERY,
    QUESTION,
    SEARCH,
    TEXT,
    VARIABLES,
)
from mahtab_tui.llm.replay import ScriptedChatModel, usage_chunk

WHO = "Demo model (rules, no AI): "

_STOP = frozenset(
    "about all and any are can did does find for from give had happen happened has have her how its line lines list many most name not number out show"
    " tell text was were than that the their there these they this those what when where which who whom whose why will with word words you your".split()
)
_ENDING = re.compile(r"(?<=\w{3})(?:ed|ing|e?s)$")
_CODE = """\
import re

found = {word: hits for word, pattern in patterns.items() if (hits := grep(pattern, max_matches=5000))}
if not found:
    FINAL(who + "no line of the text has any of the words of the query. It begins: " + peek(400))
rarest = min(found.values(), key=len)

def score(line):
    return sum(re.search(pattern, line) is not None for pattern in patterns.values())

best = max(map(score, rarest))
hits = [hit for hit in rarest if score(hit) == best]
lines = "\\n".join(f"line {getattr(hit, 'line', '?')}: {hit[:500]}" for hit in hits[:60])
have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {best} of the words {', '.join(patterns)}"
FINAL(f"{who}{have}:\\n{lines}")
"""


def search_answer(messages: Sequence[BaseMessage]) -> str | None:
    """Return the demo's next answer in a search; None if the conversation is not a search."""
    if not messages or not isinstance(messages[0], SystemMessage):
        return None
    system, last = message_text(messages[0]), message_text(messages[-1])
    if system.startswith(PLAIN):
        return _plain(_between(QUERY, last), _between(TEXT, last).split("\n"))
    if not system.startswith(SEARCH):
        return None
    patterns = _patterns(_between(QUERY, message_text(messages[1])))
    if last.startswith(LAST_CALL) or any(isinstance(message, AIMessage) for message in messages):
        return f"{WHO}its code failed. It looked for lines with {', '.join(patterns)}."
    return f"I look for the lines that have most of the words.\n\n```python\nwho = {WHO!r}\npatterns = {patterns!r}\n{_CODE}```\n"


def _patterns(query: str) -> dict[str, str]:
    """Return the words to look for, with a regular expression for each that allows other
    endings."""
    words = (word for word in re.findall(r"\w{3,}", query.lower()) if word not in _STOP)
    return {word: rf"(?i)\b{re.sub(_ENDING, '', word)}" for word in words}


def _plain(query: str, lines: Sequence[str]) -> str:
    patterns = _patterns(query)
    scores = [
        sum(re.search(pattern, line) is not None for pattern in patterns.values()) for line in lines
    ]
    if not (best := max(scores)):
        return f"{WHO}no line of the text has any of the words of the query."
    hits = [
        f"line {number}: {line[:500]}"
        for number, (line, score) in enumerate(zip(lines, scores, strict=True), 1)
        if score == best
    ]
    have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {best} of the words {', '.join(patterns)}"
    return "\n".join([f"{WHO}{have}:", *hits[:10]])


def _between(tag: str, message: str) -> str:
    """Return the text between a tag and its end tag, which nothing inside can forge."""
    found = re.search(rf"<{tag}(?: [^>]*)?>\n(.*)\n</{tag}>", message, re.DOTALL)
    return found[1] if found else ""


TOKENS_PER_SECOND = 80.0
SEARCH_TOKENS_PER_SECOND = 600.0
"""Searches produce much text that few read."""

_REAL_MODEL = "A real model has no such limits: /model lists those that you can use here (--model NAME on the command line)."
_ERRORS = re.compile(r"\b(?:errors?|fix|wrong|failed|traceback|exception|bug)\b", re.IGNORECASE)
_VARIABLE = re.compile(r"^(\w+): ([A-Za-z_][\w.]*)(?=,| =|$)")
_OUTPUT = re.compile(
    r"<(?:user|assistant)-repl-out\b([^>]*)>(.*?)</(?:user|assistant)-repl-out>", re.DOTALL
)
_NEW_VARIABLES = re.compile(r"\n\n(?=\w+: [A-Za-z_][\w.]*(?: = |, |$))", re.MULTILINE)
"""Precedes the descriptions of variables that a cell has made."""
_ERROR = re.compile(
    r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning)(?:: .*)?$", re.MULTILINE
)
_SEQUENCES = ("list", "tuple", "set", "frozenset", "dict", "Series", "ndarray", "range")
_FILLER = frozenset(
    "a all an any are as at bars by can chart characters column columns contain contains count data describe do does draw each elements empty entries"
    " first for from give graph had has have head histogram how i in into is it item items its lack lacks last letters lines list look make many me"
    " missing nan no null number of on overview please plot print row rows s see show summarise summarize summary tail tell the them there"
    " this top value values what where which whole with without words you".split()
)
"""Words of questions that do not change the answer; of a question with other words, only a column
is understood."""


class Variable(NamedTuple):
    """A variable as the prompt describes it."""

    name: str
    type: str
    text: str


Plan = tuple[str, str]
"""An announcement and code."""


class ChatDemo(ScriptedChatModel):
    """Answers by rules. Raises `ModelError` if no rule applies."""

    @property
    def _llm_type(self) -> str:
        return "demo"

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        found = search_answer(messages)
        text = answer(messages) if found is None else found
        yield from self.stream_text(
            text, TOKENS_PER_SECOND if found is None else SEARCH_TOKENS_PER_SECOND
        )
        yield usage_chunk(
            "demo",
            sum(len(message_text(message)) for message in messages) // 4,
            len(text) // 4,
            0.0,
        )


def answer(messages: Sequence[BaseMessage]) -> str:
    """Return the demo's next answer in a conversation. Raises `ModelError` if no rule applies."""
    texts = [message_text(message) for message in messages if isinstance(message, HumanMessage)]
    last = texts[-1] if texts else ""
    if '"is_complete"' in last:
        return json.dumps(
            {
                "is_complete": 'status="error"' not in last,
                "reasoning": "The code ran or failed.",
                "next_action": "",
            }
        )
    if (
        VARIABLES not in last
        and (outputs := _OUTPUT.findall(last))
        and "<assistant-repl-out" in last
    ):
        return _report(outputs)
    if VARIABLES not in last and "skipped block" in last:
        return "I leave it at that."
    question = (
        re.split(rf"^(?:</[a-z-]+>|{QUESTION} )", last, flags=re.MULTILINE)[-1]
        .removesuffix(COMPUTE)
        .strip()
    )
    first = not any(isinstance(message, AIMessage) for message in messages)
    return (WHO if first else "") + _reply(question, _variables(texts), texts)


def _variables(texts: Sequence[str]) -> list[Variable]:
    """Return the variables from the newest message that describes them."""
    listing = next((text for text in reversed(texts) if VARIABLES in text), "")
    found: list[Variable] = []
    for line in (
        listing.rpartition(f"{VARIABLES}\n\n")[2].rpartition(f"\n\n{QUESTION} ")[0].split("\n")
    ):
        if matched := _VARIABLE.match(line):
            found.append(Variable(matched[1], matched[2], line))
        elif found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line}")
    return found


def _report(outputs: Sequence[tuple[str, str]]) -> str:
    """Answer from the output of cells. Raises `ModelError` if one failed."""
    printed = (_NEW_VARIABLES.split(output.strip("\n"), maxsplit=1)[0] for _, output in outputs)
    text = "\n".join(output for output in printed if output)
    if any('status="error"' in attributes for attributes, _ in outputs):
        raise ModelError(
            f"The demo model's code failed: {text.splitlines()[-1] if text else 'nothing was printed'}. {_REAL_MODEL}"
        )
    if "\n" not in text:
        return f"The result: {text or 'nothing was printed'}."
    return f"This came out:\n\n```text\n{text if len(text) <= 1_500 else text[:1_500] + '…'}\n```"


def _reply(question: str, variables: Sequence[Variable], texts: Sequence[str]) -> str:
    if re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", question, re.IGNORECASE):
        return (
            "\n".join(f"- `{v.name}`: {v.type}" for v in variables)
            or "There are no variables yet. Make one in Python mode: `numbers = [3, 1, 2]`."
        )
    examples = "\n".join(f"- {example}" for example in _examples(variables))
    if re.search(r"\b(?:what can you|who are you)\b", question, re.IGNORECASE):
        return f"I can list, count and describe variables, show their first rows, find missing values and draw bars. For example:\n\n{examples}"
    if _ERRORS.search(question) and (errors := _raised(texts)):
        return (
            f"The cell raised {errors[-1].rstrip('.')}. I explain no more than that. {_REAL_MODEL}"
        )
    words = re.findall(r"\w+", question)
    known = [v for v in variables if v.name in words or v.type in ("DataFrame", "str", *_SEQUENCES)]
    for variable in sorted(known, key=lambda each: _likeness(each, words), reverse=True):
        if found := _plan(words, variable):
            return f"{found[0]}\n\n```python\n{found[1]}\n```\n"
    raise ModelError(
        f"The demo model has no rule for this question. These would work now:\n{examples}\n{_REAL_MODEL}"
    )


def _raised(texts: Sequence[str]) -> list[str]:
    """Return the exceptions of the cells that failed."""
    failed = (
        output
        for text in texts
        for attributes, output in _OUTPUT.findall(text)
        if 'status="error"' in attributes
    )
    return [error for output in failed for error in _ERROR.findall(html.unescape(output))[-1:]]


def _examples(variables: Sequence[Variable]) -> list[str]:
    """Return questions that work with the current variables."""
    for variable in variables:
        if variable.type in ("DataFrame", *_SEQUENCES):
            return [
                f"describe {variable.name}",
                f"how many items has {variable.name}?",
                f"first 5 of {variable.name}",
            ]
    return [
        "which variables are there?",
        "make numbers = [3, 1, 2] in Python mode, then: plot numbers",
    ]


def _likeness(variable: Variable, words: Sequence[str]) -> tuple[bool, int, bool]:
    """Return how likely a question is about a variable: by its name, the columns that the question
    names, its type."""
    columns = {
        word
        for word in words
        if word not in _FILLER
        and re.search(rf"\b{word}\b", variable.text.partition("\n")[2], re.IGNORECASE)
    }
    return variable.name in words, len(columns), variable.type == "DataFrame"


def _plan(words: Sequence[str], variable: Variable) -> Plan | None:
    """Answer a question about a variable; None if it asks for something else."""
    before, _, after = f" {' '.join(words)} ".rpartition(
        f" {variable.name} "
    )  # it may be named like a word that asks for something
    question = f"{before} {after}"
    rest = [word for word in question.split() if word.lower() not in _FILLER]
    has_columns = variable.type == "DataFrame" or "{" in variable.text
    columns = (
        re.findall(rf"\b{rest[0]}\b", variable.text.partition("\n")[2], re.IGNORECASE) or rest
        if rest
        else []
    )
    column = columns[0] if len(rest) == 1 and has_columns else ""

    def asks(pattern: str) -> bool:
        return re.search(rf"\b(?:{pattern})\b", question, re.IGNORECASE) is not None

    missing = asks("no|without|missing|lacks?|empty|null|nan")
    if missing and column:
        return _find_missing(variable, column)
    if asks("plot|chart|graph|histogram|bars|draw") and (
        column or (not rest and variable.type in _SEQUENCES)
    ):
        return _draw_bars(variable, column)
    if asks("first|head|top|last|tail") and (
        not rest or (len(rest) == 1 and rest[0].isdecimal() and len(rest[0]) < 6)
    ):
        return _show_part(variable, int(rest[0]) if rest else 5, asks("last|tail"))
    if rest or (missing and variable.type != "DataFrame"):
        return None
    if asks("how many|count|number of") and not missing:
        return _count(
            variable,
            "lines" if asks("lines") else "characters" if asks("characters|letters") else "words",
        )
    return (
        _describe(variable)
        if missing or asks(r"describe|summar\w+|overview|show|print|look|tell|see|contains?|what")
        else None
    )


def _find_missing(variable: Variable, column: str) -> Plan:
    name, made = variable.name, f"without_{column.lower()}"
    code, shown = (
        f"{made} = [row for row in {name} if row[{column!r}] in (None, '')]",
        f"*{made}[:10]",
    )
    if variable.type == "DataFrame":
        code, shown = f"{made} = {name}[{name}[{column!r}].isna()]", f"{made}.head(10)"
    code += f"\nprint(len({made}), 'of', len({name}), 'rows have no {column}')\nprint({shown})"
    return f"I look for rows of `{name}` without {column}.", code


def _draw_bars(variable: Variable, column: str) -> Plan:
    name = variable.name
    values = (
        f"(row[{column!r}] for row in {name})"
        if column
        else f"{name}.values()"
        if variable.type == "dict"
        else name
    )
    if variable.type == "DataFrame":
        values = f"{name}[{column!r}]"
    code = (
        f"numbers = [float(value) for value in {values} if value not in (None, '') and value == value][:30]\n"
        "longest = max(map(abs, numbers), default=0) or 1\n"
        "for number in numbers:\n"
        "    print(f'{number:12g}', '█' * round(40 * abs(number) / longest))"
    )
    return f"I draw {column or 'the values'} of `{name}` as bars.", code


def _show_part(variable: Variable, count: int, last: bool) -> Plan:
    name = variable.name
    values = (
        name if variable.type in ("DataFrame", "Series", "ndarray", "list") else f"list({name})"
    )
    if variable.type == "str":
        values = f"{name}.splitlines()"
    return (
        f"Here is a part of `{name}`.",
        f"print({values}[{f'-{count}:' if last else f':{count}'}])",
    )


def _count(variable: Variable, unit: str) -> Plan:
    """Count the words, lines or characters of a text, or the items of anything else."""
    name = variable.name
    counted = {"words": f"{name}.split()", "lines": f"{name}.splitlines()"}.get(unit, name)
    if variable.type != "str":
        unit, counted = "rows" if variable.type == "DataFrame" else "items", name
    return f"I count the {unit} of `{name}`.", f"print('{name} has', len({counted}), '{unit}')"


def _describe(variable: Variable) -> Plan:
    name, code = variable.name, f"print(repr({variable.name})[:1000])"
    if variable.type == "DataFrame":
        code = f"print({name}.shape)\nprint({name}.describe())\nprint({name}.isna().sum())"
    elif variable.type in _SEQUENCES:
        code = f"print(type({name}).__name__, len({name}))\nprint(list({name})[:5])"
    return f"I look at `{name}`.", code
