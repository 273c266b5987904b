"""LangChain models without a service: the demo model, and the one that reads prepared answers from
a file."""

from __future__ import annotations

import html
import inspect
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from mahtab_tui.llm import prompts
from mahtab_tui.llm.answer_metadata import message_text
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.replay_file import Replay, ReplayLine, read_replay, split_tokens
from mahtab_tui.llm.search_prompt_words import LAST_CALL, PLAIN, QUERY, SEARCH, TEXT
from mahtab_tui.llm.variable_texts import OTHERS

WHO = "Demo model (rules, no AI): "
_REAL_MODEL = "A real model has no such limits: /model lists those that you can use here (--model NAME on the command line)."
_DATA = ("DataFrame", "list", "tuple", "set", "frozenset", "dict", "Series", "ndarray", "range")
_COMMON_WORDS = frozenset(
    "a about all an and any are as at by can characters chart column columns contain contains count data describe did do does draw each empty find first for"
    " from give had happen happened has have how i in into is it item items lacks last line lines list look many me missing name nan no not null"
    " number of on out overview plot print row rows s see show summarise summarize summary tell text than that the their them there these they this"
    " value values was were what when where which who why will with without word words you your".split()
)
_ENDING = re.compile(r"(?<=\w{3})(?:ed|ing|e?s)$")
_VARIABLE = re.compile(r"^(\w+): ([A-Za-z_][\w.]*)(?=,| =|  \[|$)", re.MULTILINE)
_OUTPUT = re.compile(r"(?s)<(?:user|assistant)-repl-out\b([^>]*)>(.*?)</\w+-repl-out>")
_ERROR = re.compile(r"(?m)^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning)(?:: .*)?$")
_NEW_VARIABLES = re.compile(r"\n\n(?=\w+: [A-Za-z_][\w.]*(?: = |, |  \[|$))", re.MULTILINE)


class ScriptedChatModel(BaseChatModel):
    """A model that streams prepared texts, and can be stopped between two tokens."""

    reports_cost: ClassVar[bool] = True
    priced_as: ClassVar[str] = "local"
    sees: ClassVar[bool] = False

    _stopped: threading.Event = PrivateAttr(default_factory=threading.Event)

    def worst_cost(self) -> float | None:
        return 0.0

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def stream_text(
        self, text: str, tokens_per_second: float | None
    ) -> Iterator[ChatGenerationChunk]:
        """Yield the text as chunks at a pace (None: at once), until stopped."""
        self._stopped.clear()
        for token in split_tokens(text):
            if tokens_per_second is not None and self._stopped.wait(1 / tokens_per_second):
                return
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages))


def _usage_chunk(
    model: str, read_tokens: int, written_tokens: int, cost: float | None
) -> ChatGenerationChunk:
    """Return the last chunk of an answer. cost: US dollars."""
    usage = UsageMetadata(
        input_tokens=read_tokens,
        output_tokens=written_tokens,
        total_tokens=read_tokens + written_tokens,
    )
    metadata = {"cost_usd": cost, "model_name": model}
    message = AIMessageChunk(content="", usage_metadata=usage, response_metadata=metadata)
    return ChatGenerationChunk(message=message)


class ChatReplay(ScriptedChatModel):
    """A model that reads its answers from a file."""

    lines: list[ReplayLine]
    source: str

    _replay: Replay = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        self._replay = Replay(self.lines, self.source)

    @classmethod
    def from_file(cls, path: Path) -> ChatReplay:
        return cls(lines=read_replay(path), source=str(path))

    @property
    def _llm_type(self) -> str:
        return "replay"

    def worst_cost(self) -> float | None:
        return self._replay.worst_cost()

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        line = self._replay.next(message_text(messages[-1]))
        yield from self.stream_text(line.text, line.tokens_per_second)
        yield _usage_chunk("replay", line.input_tokens, line.output_tokens, line.cost)


# The demo model


class ChatDemo(ScriptedChatModel):
    """A model of a few rules, which shows what the program does."""

    @property
    def _llm_type(self) -> str:
        return "demo"

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        text = _search_answer(messages) or answer(messages)
        yield from self.stream_text(text, 200.0)
        read_chars = sum(len(message_text(message)) for message in messages)
        yield _usage_chunk("demo", read_chars // 4, len(text) // 4, 0.0)


def _search_answer(messages: Sequence[BaseMessage]) -> str:
    """Return the next answer in a search; empty if the conversation is not a search."""
    system = message_text(messages[0])
    last = message_text(messages[-1])
    is_plain = system.startswith(PLAIN)
    if not (is_plain or system.startswith(SEARCH)):
        return ""

    query = _extract_tagged(QUERY, last if is_plain else message_text(messages[1]))
    words = [word for word in re.findall(r"\w{3,}", query.lower()) if word not in _COMMON_WORDS]
    patterns = {word: rf"(?i)\b{re.sub(_ENDING, '', word)}" for word in words}
    if is_plain:
        return _matching_lines(WHO, patterns, _extract_tagged(TEXT, last).split("\n"))

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
    """Return the demo's next answer in a conversation. Raises `ModelError` if no rule applies."""
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
    is_list = reply.startswith("- ")
    return f"{WHO}\n\n{reply}" if is_list else WHO + reply


def _answer_from_output(message: str) -> str:
    """Return what the code has printed. Raises `ModelError` if it failed."""
    outputs = _OUTPUT.findall(message)
    printed = [_NEW_VARIABLES.split(output.strip("\n"), maxsplit=1)[0] for _, output in outputs]
    text = "\n".join(filter(None, printed)) or "nothing was printed"
    if any('status="error"' in attributes for attributes, _ in outputs):
        error = text.splitlines()[-1]
        raise ModelError(f"The demo model's code failed: {error}. {_REAL_MODEL}")
    if "\n" not in text:
        return f"The result: {text}."
    return f"This came out:\n\n```text\n{text[:1_500]}\n```"


def _reply(question: str, variables: Mapping[str, tuple[str, str]]) -> str:
    """Answer a question about variables (type and description by name). Raises `ModelError`."""
    if re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", question, re.IGNORECASE):
        lines = [f"- `{name}`: {type_name}" for name, (type_name, _) in variables.items()]
        return "\n".join(lines) or "There are no variables yet. Make one: `numbers = [3, 1, 2]`."
    words = re.findall(r"\w+", question)
    data_names = [name for name, (type_name, _) in variables.items() if type_name in _DATA]
    mentioned_names = [name for name in variables if name in words]
    for name in mentioned_names or data_names:
        plan = _plan(words, name, *variables[name])
        if plan is not None:
            announcement, code = plan
            return f"{announcement}\n\n```python\n{code}\n```\n"
    name = data_names[0] if data_names else "numbers, after numbers = [3, 1, 2]"
    raise ModelError(
        "The demo model has no rule for this question. These would work now:\n- which variables are"
        f" there?\n- describe {name}\n- how many items has {name}?\n{_REAL_MODEL}"
    )


def _variables(texts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return type and description of each variable, by name."""
    listing = next((text for text in reversed(texts) if prompts.VARIABLES in text), "")
    listing = listing.rpartition(f"{prompts.VARIABLES}\n\n")[2]
    listing = listing.rpartition(f"\n\n{prompts.QUESTION} ")[0]
    # Those that share a line get one each.
    listing = re.sub(rf"^{OTHERS}: .*", lambda line: _split_line(line[0]), listing, flags=re.M)
    parts = _VARIABLE.split(listing)
    types_and_texts = zip(parts[2::3], parts[3::3], strict=True)
    return dict(zip(parts[1::3], types_and_texts, strict=True))


def _split_line(line: str) -> str:
    return line.partition(": ")[2].replace("; ", "\n")


def _plan(words: Sequence[str], name: str, type_name: str, text: str) -> tuple[str, str] | None:
    """Return an announcement and code for a question about a variable; None if no rule fits."""
    is_table = type_name == "DataFrame"
    question = " ".join(words).lower()
    other_words = [word for word in words if word != name and word.lower() not in _COMMON_WORDS]

    def asks(pattern: str) -> bool:
        return bool(re.search(rf"\b(?:{pattern})\b", question))

    column = ""
    if len(other_words) == 1:
        column_match = re.search(rf"\b{other_words[0]}\b", text, re.IGNORECASE)
        column = column_match[0] if column_match else ""
    if column and asks("no|without|missing|empty"):
        result = f"without_{column.lower()}"
        rows = f"[row for row in {name} if row[{column!r}] in (None, '')]"
        if is_table:
            rows = f"{name}[{name}[{column!r}].isna()]"
        code = (
            f"{result} = {rows}\nprint(len({result}), 'of', len({name}), 'rows have no {column}')"
        )
        return f"I look for rows of `{name}` without {column}.", f"{code}\nprint({result}[:10])"

    if asks("plot|draw|chart") and (column or not other_words):
        values = f"{name}[{column!r}]" if column else name
        call = f"plt.plot({values})"
        if type_name in ("DataFrame", "Series"):
            call = f"{values}.plot()"
        return f"I draw `{values}`.", f"import matplotlib.pyplot as plt\n\n{call}\nplt.show()"

    count = ""
    if len(other_words) == 1 and re.fullmatch("[0-9]{1,5}", other_words[0]):
        count = other_words[0]
    if asks("first|last") and (count or not other_words):
        values = {"str": f"{name}.splitlines()", "dict": f"list({name})"}.get(type_name, name)
        bounds = f"-{count or 5}:" if asks("last") else f":{count or 5}"
        return f"Here is a part of `{name}`.", f"print({values}[{bounds}])"

    if not other_words and asks("how many|count"):
        unit = {"str": "words", "DataFrame": "rows"}.get(type_name, "items")
        size = f"len({name}.split())" if type_name == "str" else f"len({name})"
        return f"I count the {unit} of `{name}`.", f"print('{name} has', {size}, '{unit}')"
    if not other_words and asks("describe|summary|show|print|what"):
        expression = f"repr({name})[:1000]"
        if is_table:
            expression = f"{name}.describe(include='all')"
        return f"I look at `{name}`.", f"print({expression})"
    return None
