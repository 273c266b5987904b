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
from mahtab_tui.llm.base import ModelError, message_text
from mahtab_tui.llm.replay_file import Replay, ReplayLine, read_replay, split_tokens


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


def _usage_chunk(model: str, read: int, written: int, cost: float | None) -> ChatGenerationChunk:
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    metadata = {"cost_usd": cost, "model_name": model}
    message = AIMessageChunk(content="", usage_metadata=usage, response_metadata=metadata)
    return ChatGenerationChunk(message=message)


class ChatReplay(ScriptedChatModel):
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


class ChatDemo(ScriptedChatModel):
    @property
    def _llm_type(self) -> str:
        return "demo"

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        text = _search_answer(messages) or answer(messages)
        yield from self.stream_text(text, 200.0)
        read = "".join(map(message_text, messages))
        yield _usage_chunk("demo", len(read) // 4, len(text) // 4, 0.0)


def _search_answer(messages: Sequence[BaseMessage]) -> str:
    """Return the next answer in a search; empty if the conversation is not a search."""
    system, last = message_text(messages[0]), message_text(messages[-1])
    is_plain = system.startswith(prompts.PLAIN)
    if not (is_plain or system.startswith(prompts.SEARCH)):
        return ""
    query = _tagged(prompts.QUERY, last if is_plain else message_text(messages[1]))
    words = [word for word in re.findall(r"\w{3,}", query.lower()) if word not in _COMMON_WORDS]
    patterns = {word: rf"(?i)\b{re.sub(_ENDING, '', word)}" for word in words}
    if is_plain:
        return _matching_lines(WHO, patterns, _tagged(prompts.TEXT, last).split("\n"))
    if last.startswith(prompts.LAST_CALL) or any(isinstance(each, AIMessage) for each in messages):
        return f"{WHO}its code failed. It looked for lines with {', '.join(patterns)}."
    call = f"FINAL(_matching_lines({WHO!r}, {patterns!r}, context.split('\\n')))"
    code = f"import re\n\n{inspect.getsource(_matching_lines)}\n{call}"
    return f"I look for the lines that have most of the words.\n\n```python\n{code}\n```\n"


def _tagged(tag: str, message: str) -> str:
    found = re.search(rf"<{tag}(?: [^>]*)?>\n(.*)\n</{tag}>", message, re.DOTALL)
    return found[1] if found else ""


def _matching_lines(who: str, patterns: dict[str, str], lines: list[str]) -> str:
    scores = [sum(bool(re.search(each, line)) for each in patterns.values()) for line in lines]
    best = max(scores)
    if not best:
        return f"{who}no line of the text has any of the words of the query."
    numbers = [number for number, score in enumerate(scores, 1) if score == best]
    shown = [f"{who}lines with {best} of the words {', '.join(patterns)}: {len(numbers):,}"]
    for number in numbers[:10]:
        line = lines[number - 1]
        found = [match.start() for each in patterns.values() if (match := re.search(each, line))]
        shown.append(f"line {number}: {line[max(0, min(found) - 200) :][:500]}")
    return "\n".join(shown)


def answer(messages: Sequence[BaseMessage]) -> str:
    """Return the demo's next answer in a conversation. Raises `ModelError` if no rule applies."""
    texts = [message_text(message) for message in messages if isinstance(message, HumanMessage)]
    last = texts[-1] if texts else ""
    if '"is_complete"' in last:
        return json.dumps({"is_complete": 'status="error"' not in last})
    if prompts.VARIABLES not in last and "<assistant-repl-out" in last:
        outputs = _OUTPUT.findall(last)
        printed = (_NEW_VARIABLES.split(text.strip("\n"), maxsplit=1)[0] for _, text in outputs)
        text = "\n".join(filter(None, printed)) or "nothing was printed"
        if any('status="error"' in attributes for attributes, _ in outputs):
            error = text.splitlines()[-1]
            raise ModelError(f"The demo model's code failed: {error}. {_REAL_MODEL}")
        shown = f"This came out:\n\n```text\n{text[:1_500]}\n```"
        return shown if "\n" in text else f"The result: {text}."
    question = re.split(rf"^(?:</[a-z-]+>|{prompts.QUESTION} )", last, flags=re.MULTILINE)[-1]
    failed = (out for how, out in _OUTPUT.findall("\n".join(texts)) if 'status="error"' in how)
    errors = _ERROR.findall(html.unescape("\n".join(failed)))
    if errors and re.search(r"\b(?:error|fix|wrong|failed)\b", question, re.IGNORECASE):
        return f"The cell raised {errors[-1]}. I explain no more than that. {_REAL_MODEL}"
    reply = _reply(question.removesuffix(prompts.COMPUTE).strip(), _variables(texts))
    return reply if any(isinstance(message, AIMessage) for message in messages) else WHO + reply


def _reply(question: str, variables: Mapping[str, tuple[str, str]]) -> str:
    if re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", question, re.IGNORECASE):
        lines = [f"- `{name}`: {kind}" for name, (kind, _) in variables.items()]
        return "\n".join(lines) or "There are no variables yet. Make one: `numbers = [3, 1, 2]`."
    words = re.findall(r"\w+", question)
    data = [name for name, (kind, _) in variables.items() if kind in _DATA]
    for name in [name for name in variables if name in words] or data:
        if found := _plan(words, name, *variables[name]):
            return f"{found[0]}\n\n```python\n{found[1]}\n```\n"
    name = data[0] if data else "numbers, after numbers = [3, 1, 2]"
    raise ModelError(
        "The demo model has no rule for this question. These would work now:\n- which variables are"
        f" there?\n- describe {name}\n- how many items has {name}?\n{_REAL_MODEL}"
    )


def _variables(texts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return type and description of each variable, by name."""
    listing = next((text for text in reversed(texts) if prompts.VARIABLES in text), "")
    after = listing.rpartition(f"{prompts.VARIABLES}\n\n")[2]
    listing = after.rpartition(f"\n\n{prompts.QUESTION} ")[0]
    # Those that share a line get one each.
    listing = re.sub(
        rf"^{prompts.OTHERS}: .*", lambda line: _split_line(line[0]), listing, flags=re.M
    )
    parts = _VARIABLE.split(listing)
    kinds = zip(parts[2::3], parts[3::3], strict=True)
    return dict(zip(parts[1::3], kinds, strict=True))


def _split_line(line: str) -> str:
    return line.partition(": ")[2].replace("; ", "\n")


def _plan(words: Sequence[str], name: str, kind: str, text: str) -> tuple[str, str] | None:
    """Return an announcement and code for a question about a variable; None if no rule fits."""
    is_table, question = kind == "DataFrame", " ".join(words).lower()
    rest = [word for word in words if word != name and word.lower() not in _COMMON_WORDS]

    def asks(pattern: str) -> bool:
        return bool(re.search(rf"\b(?:{pattern})\b", question))

    found = re.search(rf"\b{rest[0]}\b", text, re.IGNORECASE) if len(rest) == 1 else None
    column = found[0] if found else ""
    if column and asks("no|without|missing|empty"):
        made = f"without_{column.lower()}"
        rows = f"[row for row in {name} if row[{column!r}] in (None, '')]"
        rows = f"{name}[{name}[{column!r}].isna()]" if is_table else rows
        code = f"{made} = {rows}\nprint(len({made}), 'of', len({name}), 'rows have no {column}')"
        return f"I look for rows of `{name}` without {column}.", f"{code}\nprint({made}[:10])"
    if asks("plot|draw|chart") and (column or not rest):
        values = f"{name}[{column!r}]" if column else name
        drawn = f"{values}.plot()" if kind in ("DataFrame", "Series") else f"plt.plot({values})"
        return f"I draw `{values}`.", f"import matplotlib.pyplot as plt\n\n{drawn}\nplt.show()"
    count = rest[0] if len(rest) == 1 and re.fullmatch("[0-9]{1,5}", rest[0]) else ""
    if asks("first|last") and (count or not rest):
        values = {"str": f"{name}.splitlines()", "dict": f"list({name})"}.get(kind, name)
        part = f"-{count or 5}:" if asks("last") else f":{count or 5}"
        return f"Here is a part of `{name}`.", f"print({values}[{part}])"
    if not rest and asks("how many|count"):
        unit = {"str": "words", "DataFrame": "rows"}.get(kind, "items")
        size = f"len({name}.split())" if kind == "str" else f"len({name})"
        return f"I count the {unit} of `{name}`.", f"print('{name} has', {size}, '{unit}')"
    if not rest and asks("describe|summary|show|print|what"):
        shown = f"{name}.describe(include='all')" if is_table else f"repr({name})[:1000]"
        return f"I look at `{name}`.", f"print({shown})"
    return None
