"""The demo model, which answers by a few rules and shows what the program does.

It reads the prompt as a model does: the variables that the prompt describes, the question, and what its
code has printed. It knows a few kinds of questions about a variable, and answers each with code.
"""

from __future__ import annotations

import html
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk

from mahtab_tui.llm import prompts
from mahtab_tui.llm.answer_metadata import message_text
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.scripted import ScriptedChatModel, usage_chunk
from mahtab_tui.llm.search_prompt_words import LAST_CALL, PLAIN, QUERY, SEARCH, TEXT
from mahtab_tui.llm.variable_texts import OTHERS_TITLE

WHO = "Demo model (rules, no AI): "
_REAL_MODEL = "A real model has no such limits: /model lists those that you can use here (--model NAME on the command line)."
_TOKENS_PER_SECOND = 200.0
_CHARS_PER_TOKEN = 4
"""The length of a token that the reported usage assumes."""
_MAX_OUTPUT_CHARS = 1_500
"""An answer shows at most this many characters of an output."""
_DEFAULT_ITEM_COUNT = 5
"""This many items are printed if the question names no number."""
_DATA_TYPES = (
    "DataFrame",
    "list",
    "tuple",
    "set",
    "frozenset",
    "dict",
    "Series",
    "ndarray",
    "range",
)
"""Types of variables that a question may be about without naming one."""
_COMMON_WORDS = frozenset(
    "a about all an and any are as at by can characters chart column columns contain contains count data describe did do does draw each empty find first for"
    " from give had happen happened has have how i in into is it item items lacks last line lines list look many me missing name nan no not null"
    " number of on out overview plot print row rows s see show summarise summarize summary tell text than that the their them there these they this"
    " value values was were what when where which who why will with without word words you your".split()
)
"""Words of a question that mean no variable, column or line."""
_WORD_ENDING = re.compile(r"(?<=\w{3})(?:ed|ing|e?s)$")
_VARIABLE = re.compile(r"^(\w+): ([A-Za-z_][\w.]*)(?=,| =|  \[|$)", re.MULTILINE)
"""The beginning of a variable's description in a prompt: its name and its type."""
_OUTPUT = re.compile(r"(?s)<(?:user|assistant)-repl-out\b([^>]*)>(.*?)</\w+-repl-out>")
"""The output of a cell in a prompt: the attributes of its element, and the text."""
_ERROR = re.compile(r"(?m)^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning)(?:: .*)?$")
"""The line of a traceback that names the error."""
_NEW_VARIABLES = re.compile(r"\n\n(?=\w+: [A-Za-z_][\w.]*(?: = |, |  \[|$))", re.MULTILINE)
"""The gap between what a cell has printed and the descriptions of the variables that it has changed."""


class ChatDemo(ScriptedChatModel):
    """The demo model, as LangChain asks models."""

    @property
    def _llm_type(self) -> str:
        return "demo"

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        text = _search_answer(messages) or answer(messages)
        yield from self.stream_text(text, _TOKENS_PER_SECOND)
        read_chars = sum(len(message_text(message)) for message in messages)
        read_tokens = read_chars // _CHARS_PER_TOKEN
        written_tokens = len(text) // _CHARS_PER_TOKEN
        yield usage_chunk("demo", read_tokens, written_tokens, 0.0)


def _search_answer(messages: Sequence[BaseMessage]) -> str:
    """Return the next answer in a search; empty if the conversation is not a search."""
    system = message_text(messages[0])
    last = message_text(messages[-1])
    is_plain = system.startswith(PLAIN)
    if not (is_plain or system.startswith(SEARCH)):
        return ""

    query = _extract_tagged(QUERY, last if is_plain else message_text(messages[1]))
    words = [word for word in re.findall(r"\w{3,}", query.lower()) if word not in _COMMON_WORDS]
    patterns = {word: rf"(?i)\b{_WORD_ENDING.sub('', word)}" for word in words}
    if is_plain:
        return _matching_lines(WHO, patterns, _extract_tagged(TEXT, last).split("\n"))

    # If the code of the first answer had worked, there would be no second one.
    has_answered = any(isinstance(message, AIMessage) for message in messages)
    if last.startswith(LAST_CALL) or has_answered:
        return f"{WHO}its code failed. It looked for lines with {', '.join(patterns)}."
    call = f"FINAL(_matching_lines({WHO!r}, {patterns!r}, context.split('\\n')))"
    code = f"import re\n\n{inspect.getsource(_matching_lines)}\n{call}"
    return f"I look for the lines that have most of the words.\n\n```python\n{code}\n```\n"


def _extract_tagged(tag: str, message: str) -> str:
    """Return the text between tags; empty if there is none."""
    match = re.search(rf"<{tag}(?: [^>]*)?>\n(.*)\n</{tag}>", message, re.DOTALL)
    return match[1] if match else ""


# The source of this function is also sent as code, so it uses nothing but `re`.
def _matching_lines(who: str, patterns: dict[str, str], lines: list[str]) -> str:
    scores = [
        sum(bool(re.search(pattern, line)) for pattern in patterns.values()) for line in lines
    ]
    best_score = max(scores)
    if not best_score:
        return f"{who}no line of the text has any of the words of the query."
    numbers = [number for number, score in enumerate(scores, 1) if score == best_score]
    rows = [f"{who}lines with {best_score} of the words {', '.join(patterns)}: {len(numbers):,}"]
    for number in numbers[:10]:
        line = lines[number - 1]
        matches = [re.search(pattern, line) for pattern in patterns.values()]
        first_match = min(match.start() for match in matches if match)
        rows.append(f"line {number}: {line[max(0, first_match - 200) :][:500]}")
    return "\n".join(rows)


def answer(messages: Sequence[BaseMessage]) -> str:
    """Return the next answer of the demo model in a conversation.

    Raises:
        ModelError: No rule applies to the question, or the code of the last answer has failed.
    """
    texts = [message_text(message) for message in messages if isinstance(message, HumanMessage)]
    last = texts[-1] if texts else ""
    if '"is_complete"' in last:
        return json.dumps({"is_complete": 'status="error"' not in last})
    if prompts.VARIABLES not in last and "<assistant-repl-out" in last:
        return _answer_from_output(last)

    question = re.split(rf"^(?:</[a-z-]+>|{prompts.QUESTION} )", last, flags=re.MULTILINE)[-1]
    outputs = _OUTPUT.findall("\n".join(texts))
    failed_outputs = [output for attributes, output in outputs if 'status="error"' in attributes]
    errors = _ERROR.findall(html.unescape("\n".join(failed_outputs)))
    if errors and re.search(r"\b(?:error|fix|wrong|failed)\b", question, re.IGNORECASE):
        return f"The cell raised {errors[-1]}. I explain no more than that. {_REAL_MODEL}"

    reply = _reply(question.removesuffix(prompts.COMPUTE).strip(), _variables(texts))
    has_answered = any(isinstance(message, AIMessage) for message in messages)
    if has_answered:
        return reply
    # A list needs a line of its own.
    if reply.startswith("- "):
        return f"{WHO}\n\n{reply}"
    return WHO + reply


def _answer_from_output(message: str) -> str:
    """Return an answer with what the code of the last answer has printed.

    Raises:
        ModelError: The code has failed.
    """
    outputs = _OUTPUT.findall(message)
    printed = [_NEW_VARIABLES.split(output.strip("\n"), maxsplit=1)[0] for _, output in outputs]
    text = "\n".join(filter(None, printed)) or "nothing was printed"
    if any('status="error"' in attributes for attributes, _ in outputs):
        error = text.splitlines()[-1]
        raise ModelError(f"The demo model's code failed: {error}. {_REAL_MODEL}")
    if "\n" not in text:
        return f"The result: {text}."
    return f"This came out:\n\n```text\n{text[:_MAX_OUTPUT_CHARS]}\n```"


class _DemoVariable(NamedTuple):
    """A variable as the prompt describes it."""

    name: str
    type: str
    description: str
    """The text after the type. For a table, it has the names of the columns."""


class _Plan(NamedTuple):
    """What the demo does for a question."""

    announcement: str
    """A sentence that says what the code does."""
    code: str


def _reply(question: str, variables: Mapping[str, _DemoVariable]) -> str:
    """Return the answer to a question about variables.

    Args:
        question: The question.
        variables: The variables by name.

    Raises:
        ModelError: No rule applies.
    """
    if re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", question, re.IGNORECASE):
        lines = [f"- `{variable.name}`: {variable.type}" for variable in variables.values()]
        return "\n".join(lines) or "There are no variables yet. Make one: `numbers = [3, 1, 2]`."

    words = re.findall(r"\w+", question)
    mentioned_variables = [variable for name, variable in variables.items() if name in words]
    data_variables = [variable for variable in variables.values() if variable.type in _DATA_TYPES]
    for variable in mentioned_variables or data_variables:
        plan = _plan(words, variable)
        if plan is not None:
            return f"{plan.announcement}\n\n```python\n{plan.code}\n```\n"

    name = data_variables[0].name if data_variables else "numbers, after numbers = [3, 1, 2]"
    raise ModelError(
        "The demo model has no rule for this question. These would work now:\n- which variables are"
        f" there?\n- describe {name}\n- how many items has {name}?\n{_REAL_MODEL}"
    )


def _variables(texts: Sequence[str]) -> dict[str, _DemoVariable]:
    """Return the variables that the messages with questions describe, by name.

    Each of these messages describes the variables that are new or have changed since the one before.
    """
    variables: dict[str, _DemoVariable] = {}
    for text in texts:
        if prompts.VARIABLES in text:
            variables |= _listed_variables(text)
    return variables


def _listed_variables(text: str) -> dict[str, _DemoVariable]:
    """Return the variables that one message with a question describes, by name."""
    listing = text.rpartition(f"{prompts.VARIABLES}\n\n")[2]
    listing = listing.rpartition(f"\n\n{prompts.QUESTION} ")[0]
    # Variables that share a line get a line each.
    listing = re.sub(
        rf"^{OTHERS_TITLE}: .*", lambda line: _split_line(line[0]), listing, flags=re.M
    )

    # After the text before the first variable, there are a name, a type and a description for each.
    _, *parts = _VARIABLE.split(listing)
    fields = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {name: _DemoVariable(name, type_name, text) for name, type_name, text in fields}


def _split_line(line: str) -> str:
    """Return a line of several variables as one line for each, without its title."""
    return line.partition(": ")[2].replace("; ", "\n")


def _plan(words: Sequence[str], variable: _DemoVariable) -> _Plan | None:
    """Return what to do for a question about a variable; None if no rule applies.

    Args:
        words: The words of the question.
        variable: The variable.
    """
    question = " ".join(words).lower()
    other_words = [
        word for word in words if word != variable.name and word.lower() not in _COMMON_WORDS
    ]
    column = _find_column(other_words, variable)
    count = ""
    if len(other_words) == 1 and re.fullmatch("[0-9]{1,5}", other_words[0]):
        count = other_words[0]

    def asks(pattern: str) -> bool:
        return bool(re.search(rf"\b(?:{pattern})\b", question))

    # A word that is neither common nor a column may ask for something that the rules do not know.
    if column and asks("no|without|missing|empty"):
        return _plan_missing(variable, column)
    if asks("plot|draw|chart") and (column or not other_words):
        return _plan_chart(variable, column)
    if asks("first|last") and (count or not other_words):
        return _plan_part(variable, int(count or _DEFAULT_ITEM_COUNT), at_end=asks("last"))
    if not other_words and asks("how many|count"):
        return _plan_count(variable)
    if not other_words and asks("describe|summary|show|print|what"):
        return _plan_look(variable)
    return None


def _find_column(words: Sequence[str], variable: _DemoVariable) -> str:
    """Return the column that a single word means; empty if there is none."""
    if len(words) != 1:
        return ""
    column_match = re.search(rf"\b{words[0]}\b", variable.description, re.IGNORECASE)
    return column_match[0] if column_match else ""


def _plan_missing(variable: _DemoVariable, column: str) -> _Plan:
    """Look for rows without a value in a column."""
    name = variable.name
    result = f"without_{column.lower()}"
    rows = f"[row for row in {name} if row[{column!r}] in (None, '')]"
    if variable.type == "DataFrame":
        rows = f"{name}[{name}[{column!r}].isna()]"
    code = (
        f"{result} = {rows}\n"
        f"print(len({result}), 'of', len({name}), 'rows have no {column}')\n"
        f"print({result}[:10])"
    )
    return _Plan(f"I look for rows of `{name}` without {column}.", code)


def _plan_chart(variable: _DemoVariable, column: str) -> _Plan:
    """Draw a variable, or one of its columns."""
    values = variable.name
    if column:
        values = f"{variable.name}[{column!r}]"
    call = f"plt.plot({values})"
    if variable.type in ("DataFrame", "Series"):
        call = f"{values}.plot()"
    code = f"import matplotlib.pyplot as plt\n\n{call}\nplt.show()"
    return _Plan(f"I draw `{values}`.", code)


def _plan_part(variable: _DemoVariable, count: int, *, at_end: bool) -> _Plan:
    """Print the first or the last items."""
    name = variable.name
    items = {"str": f"{name}.splitlines()", "dict": f"list({name})"}.get(variable.type, name)
    bounds = f"-{count}:" if at_end else f":{count}"
    return _Plan(f"Here is a part of `{name}`.", f"print({items}[{bounds}])")


def _plan_count(variable: _DemoVariable) -> _Plan:
    """Count the items, the rows of a table, or the words of a text."""
    name = variable.name
    unit = {"str": "words", "DataFrame": "rows"}.get(variable.type, "items")
    size = f"len({name}.split())" if variable.type == "str" else f"len({name})"
    return _Plan(f"I count the {unit} of `{name}`.", f"print('{name} has', {size}, '{unit}')")


def _plan_look(variable: _DemoVariable) -> _Plan:
    """Describe a table, or print the beginning of anything else."""
    expression = f"repr({variable.name})[:1000]"
    if variable.type == "DataFrame":
        expression = f"{variable.name}.describe(include='all')"
    return _Plan(f"I look at `{variable.name}`.", f"print({expression})")
