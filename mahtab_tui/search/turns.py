"""The turns of a node that explores its text with code, and what it has found."""

from __future__ import annotations

import ast
import asyncio
import re
import warnings
from collections import deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from mahtab_tui.search.engine import Engine


from mahtab_tui.bus.answers import fences, parse_response
from mahtab_tui.bus.records import SearchChat, SearchReplIn, SearchReplOut
from mahtab_tui.llm.base import ContextTooLong, explain_error
from mahtab_tui.sandbox.base import (
    CallRefusedError,
    Sandbox,
    SandboxError,
    Text,
    TextRun,
    TextSpan,
    TurnResult,
)
from mahtab_tui.search import prompts
from mahtab_tui.search.conversation import Message, Model, Reply
from mahtab_tui.search.limits import Amount, BudgetSpent, Deadline
from mahtab_tui.search.prompts import CUT_OFF_ANSWER, EMPTY_ANSWER, NO_CODE
from mahtab_tui.search.requests import SubAnswers, read_call, read_final, read_tool_call
from mahtab_tui.search.tree import merge_spans, shortened

MOST = 10_000
"""Most characters of the newest texts of each kind."""
_LONGEST = 4_000
_QUERY = 200


class Findings:
    """The newest answers of a node's sub-calls, outputs, and answers without code."""

    def __init__(self) -> None:
        self.answers = _RecentTexts("Answers on parts of the text")
        self.printed = _RecentTexts("Printed by its code")
        self.written = _RecentTexts("Written by its model")

    def __bool__(self) -> bool:
        return bool(self.text)

    def add_answer(self, query: str, index: int, of: int, answer: str) -> None:
        part = f" (part {index + 1} of {of})" if of > 1 else ""
        self.answers.add(f"{shortened(query, _QUERY)}{part}: {answer.strip()}")

    @property
    def text(self) -> str:
        kinds = (self.answers, self.printed, self.written)
        return "\n\n".join(f"{kind.title}:\n{kind.text}" for kind in kinds if kind.text)

    def as_answer(self, reason: str) -> str:
        return f"The search ended before it had an answer. {reason} This is what it had found.\n\n{self.text}"


class _RecentTexts:
    def __init__(self, title: str) -> None:
        self.title = title
        self._texts: deque[str] = deque()
        self._chars = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        if text := shortened(text, _LONGEST):
            self._texts.append(text)
            self._chars += len(text)
        while self._chars > MOST:
            self._chars -= len(self._texts.popleft())
            self._dropped += 1

    @property
    def text(self) -> str:
        dropped = [f"… {self._dropped:,} earlier left out …"] if self._dropped else []
        return "\n".join([*dropped, *self._texts])


EndState = Literal["done", "partial", "error", "stopped"]
Kind = Literal["rlm", "llm"]


class NodeOutcome(NamedTuple):
    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    spans: Sequence[TextSpan] = ()
    why: str = ""

    @property
    def failed(self) -> bool:
        return self.state in ("error", "stopped")


class NodeSource(NamedTuple):
    """Refers to a node's text, so that a copy exists only while it is read."""

    text: Text
    root_spans: tuple[TextSpan, ...] | None = None
    """Parts of it, to be joined by line breaks; None: all of it."""

    def release_text(self) -> Text:
        return self.text if self.root_spans is None else self.text.joined(self.root_spans)

    @property
    def own_spans(self) -> Sequence[TextSpan]:
        return ((0, len(self.text.text)),) if self.root_spans is None else self.root_spans

    @property
    def runs(self) -> list[TextRun]:
        return self.text.joined_runs(self.own_spans)

    @property
    def chars(self) -> int:
        return sum(end - start + 1 for start, end in self.own_spans) - 1

    @property
    def spans(self) -> list[TextSpan]:
        return self.text.to_root(self.own_spans)


class LiveFanOut(NamedTuple):
    number: int
    size: int


@dataclass(eq=False)
class LiveNode:
    id: str
    parent: LiveNode | None
    depth: int
    kind: Kind
    query: str
    source: NodeSource
    model: Model
    batch: LiveFanOut
    index: int
    children: int = 0
    turn: int = 0
    batches: int = 0
    running: dict[LiveNode, None] = field(default_factory=dict)
    asking: set[asyncio.Future[bool]] = field(default_factory=set)
    found: Findings = field(default_factory=Findings)
    over: bool = False
    """Whether it is ending and cannot start more children."""
    task: asyncio.Task[NodeOutcome] | None = None
    outcome: NodeOutcome | None = None


_BARE_LIMIT = 100_000

_ALSO_PYTHON = frozenset(("repl",))
"""Languages on fences of models that were trained with other search programs."""
_UNNAMED = frozenset(("", "ipython", "code"))
_VALUE = re.compile(r"\d[\d.,:/-]*\d|\d|`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'")
"""Values in an answer in words: figures, and what is quoted."""
_NOT_READ = (SyntaxError, ValueError, TypeError, IndexError, RecursionError, MemoryError)
"""Errors of reading code, or a literal in it."""
_FINAL = re.compile(r"""\b(?:FINAL|FINAL_VAR|SUBMIT)\(|\banswer\[["']ready["']\]""")


@dataclass(frozen=True, slots=True)
class AnswerCode:
    code: str | None
    cut: bool = False
    """Whether text after the code was dropped: an output that the model could only imagine."""
    feedback: str = ""
    words: str = ""
    """The value of a block that is only a literal: an answer rather than code."""


def extract_code(answer: str, *, ended: bool = True) -> AnswerCode:
    """Return the first block of Python in an answer, or all of it if it is bare Python. ended: if
    not, a block without an end is not run."""
    if not answer.strip():
        return AnswerCode(None, feedback=EMPTY_ANSWER)
    parsed = parse_response(answer, ended=ended, also=_ALSO_PYTHON)
    parts, answer = parsed.parts, parsed.spoken
    for number, part in enumerate(parts):
        if part.kind == "code":
            if part.closed or ended:
                return AnswerCode(part.text, cut=number + 1 < len(parts))
            return AnswerCode(None, feedback=CUT_OFF_ANSWER)
    return (
        _unnamed(answer)
        or (AnswerCode(answer.strip()) if ended and _is_code(answer.strip()) else None)
        or AnswerCode(None, feedback=NO_CODE if ended else CUT_OFF_ANSWER)
    )


def last_answer(answer: str) -> tuple[str, str | None]:
    """Return the words of a last answer, and the code in it that gives the answer."""
    code = extract_code(answer).code
    if code is None or not _FINAL.search(code):
        return answer.strip(), None
    with suppress(*_NOT_READ):
        statement = _parse(code).body[-1]
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("FINAL", "SUBMIT"):
            (value,) = call.args
            return str(ast.literal_eval(value)), None
    words = parse_response(answer, also=_ALSO_PYTHON).spoken.strip()
    return "" if code in words else words, code


def _unnamed(answer: str) -> AnswerCode | None:
    text = answer.replace("\r\n", "\n")
    fence = next((fence for fence in fences(text) if fence.info.lower() in _UNNAMED), None)
    if fence is None or not fence.closed or not _is_code(fence.code):
        return None
    rest = text.split("\n")[fence.end :]
    return AnswerCode(fence.code.rstrip(), cut=any(line.strip() for line in rest))


def _is_code(text: str) -> bool:
    """Tell whether a text is Python that does something. Short sentences may be valid Python too:
    "Hello", "not found", "Answer: yes"."""
    if len(text) > _BARE_LIMIT:
        return False
    with suppress(*_NOT_READ):
        return any(map(_does_something, _parse(text).body))
    return False


def _does_something(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr | ast.Return | ast.Assert | ast.Delete | ast.Raise):
        return any(
            isinstance(node, ast.Call | ast.NamedExpr | ast.Await) for node in ast.walk(statement)
        )
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not isinstance(
        statement, ast.Pass | ast.Break | ast.Continue | ast.Global | ast.Nonlocal
    )


def _parse(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about escapes in strings would go to stderr
        return ast.parse(code)


_MAX_GROUNDS = 4_096


class SandboxCalls:
    def __init__(self, engine: Engine, node: LiveNode, text: Text) -> None:
        self.final: NodeOutcome | None = None
        self.answered = asyncio.Event()
        self._engine = engine
        self._node = node
        self._text = text
        self._answers = SubAnswers(text)
        self._tool_turn = 0
        self._tool_seconds = 0.0

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        if name == "tool":
            return {"value": await self._call_tool(*read_tool_call(args))}
        request = read_call(name, args, self._text)
        outcomes = await self._engine.ask(self._node, request, self._text)
        return {
            "answers": [
                self._answer(outcome, read)
                for outcome, read in zip(outcomes, request.read, strict=True)
            ]
        }

    def _answer(self, outcome: NodeOutcome, read: Sequence[TextSpan]) -> dict[str, Any]:
        if not outcome.failed:
            self._answers.add(outcome.text, outcome.spans, read)
        text = f"[partial] {outcome.text}" if outcome.state == "partial" else outcome.text
        return {"text": text, "failed": outcome.failed}

    async def _call_tool(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self._engine.tools is None:
            raise CallRefusedError("There is no such tool.")
        if self._tool_turn != self._node.turn:
            self._tool_turn, self._tool_seconds = self._node.turn, self._engine.limits.turn_seconds
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._tool_seconds):
                return await self._engine.tools.call(name, args, kwargs)
        except TimeoutError:
            seconds = self._engine.limits.turn_seconds
            raise CallRefusedError(
                f"{name} took too long and was ended: the tools have {seconds:g} s together in a turn."
            ) from None
        finally:
            self._tool_seconds = max(0.0, self._tool_seconds - (loop.time() - began))

    def send(self, name: str, args: dict[str, Any]) -> None:
        if name != "final" or self.final:
            return
        longest = self._engine.limits.answer_at(self._node.depth)
        if (final := read_final(args, self._text, longest)) is not None:
            words, spans = final
            found = self._text.to_root(spans) + self._answers.evidence(words)
            self.final = NodeOutcome(words, "done", merge_spans(found)[:_MAX_GROUNDS])
            self.answered.set()


_OUTPUT = 10_000
"""Characters of a turn's output that a model gets at most."""
_LONG = 60_000
"""Earlier outputs of longer conversations are shortened."""
_WHOLE_OUTPUTS = 3
_TOO_LITTLE = "There was not enough left for a first call and a last one. {}"
_AFTER_FINAL = 0.3
"""Seconds that code may run on after it has given the answer."""


class Exploration:
    def __init__(self, engine: Engine, node: LiveNode) -> None:
        self._engine = engine
        self._node = node
        self.sandbox: asyncio.Future[Sandbox] | None = None
        """The caller closes it."""
        self._described = engine.tools.described if engine.tools else ()
        self._conversation = node.model.conversation()
        self._turn = 0
        self._printed = ""
        self._too_long = False
        self._outputs: deque[tuple[Message, TurnResult]] = deque()
        self._reserved = Amount()

    async def run(self, deadline: Deadline) -> NodeOutcome:
        """Run turns until there is an answer, or a limit is reached. Raises `BudgetSpent`,
        `SandboxError`, and a model's errors while nothing has been found."""
        text = self._node.source.release_text()
        depth, gaps, limits = self._node.depth, self._engine.sandboxes.gaps, self._engine.limits
        system = prompts.system_prompt(text, limits, depth=depth, gaps=gaps, tools=self._described)
        self._conversation.add(Message("system", prompts.with_instructions(system, text)))
        try:
            self._reserve_last_call()
        except BudgetSpent as error:
            raise BudgetSpent(_TOO_LITTLE.format(error)) from None
        calls, found = SandboxCalls(self._engine, self._node, text), self._node.found
        try:
            longest = limits.answer_at(depth)
            self.sandbox = asyncio.ensure_future(
                self._engine.sandboxes.start(text, calls, longest, self._described)
            )
            await asyncio.sleep(0)  # it starts while the message is made and the model thinks
            left = self._engine.left(limits.max_turns)
            first = prompts.first_message(self._node.query, text, left)
            self._conversation.add(Message("user", first))
            outcome, reason = await self._run_until_deadline(
                deadline.work, self._explore(self.sandbox, calls, text)
            )
            if outcome is None:
                outcome, failure = await self._run_until_deadline(
                    deadline.end, self._last_call(reason, calls)
                )
                reason = failure or reason
            if outcome is None and not found:
                return NodeOutcome(f"{reason.rstrip('.')}, and there is no answer.", "error")
            if outcome is None:
                return NodeOutcome(found.as_answer(reason), "partial", why=reason)
            return outcome if outcome.state == "done" else outcome._replace(why=reason)
        finally:
            self._conversation.ended = True
            self._engine.calls.budget.free(self._reserved)

    async def _run_until_deadline(
        self, end: float | None, work: Awaitable[tuple[NodeOutcome | None, str]]
    ) -> tuple[NodeOutcome | None, str]:
        """Return the outcome, or None and the reason: the time is up, or the model failed after
        something had been found."""
        try:
            async with asyncio.timeout_at(end) as limit:
                return await work
        except Exception as error:  # also a provider's own code
            if limit.expired():
                return None, "The time for the search is up."
            if not self._node.found:
                raise
            self._too_long = self._too_long or isinstance(error, ContextTooLong)
            ours = isinstance(error, BudgetSpent | SandboxError)
            return None, str(error if ours else explain_error(error))

    async def _explore(
        self, starting: asyncio.Future[Sandbox], calls: SandboxCalls, text: Text
    ) -> tuple[NodeOutcome | None, str]:
        wordy, ran = False, dict[str, bool]()
        for turn in range(1, self._engine.limits.max_turns + 1):
            try:
                if turn > 1:
                    self._reserve_last_call()
                reply = await self._ask()
            except BudgetSpent as error:
                if turn == 1:
                    raise BudgetSpent(_TOO_LITTLE.format(error)) from None
                return None, str(error)
            found = _literal_as_words(extract_code(reply.text, ended=not reply.cut))
            chat = SearchChat(reply.text, node=self._node.id, turn=turn, cut=found.cut)
            self._engine.events.send(chat)
            left = self._engine.left(self._engine.limits.max_turns - turn)
            lines = (found.code or "").splitlines()
            code = "\n".join(line.rstrip() for line in lines if line.strip())
            if code in ran:
                if ran[code]:
                    return None, "The model wrote the same code again and again."
                wordy = ran[code] = True
                self._reply(reply.text, found, prompts.repeated_code(self._node.query), again=True)
                continue
            if found.code is None:
                words = (found.words or reply.text).strip()
                if found.feedback == NO_CODE and (wordy or self._is_printed(words)):
                    return NodeOutcome(words, "done", text.quoted(words)), ""
                wordy = found.feedback == NO_CODE
                self._node.found.written.add(reply.text.strip())
                self._reply(reply.text, found, prompts.feedback_message(found.feedback, left))
                continue
            wordy = ran[code] = False
            result = await self._run_code(turn, await starting, found.code, calls)
            if result.status in ("killed", "died"):  # the code may need to run again
                ran.clear()
            if calls.final is not None:
                return calls.final, ""
            self._node.found.printed.add(result.output.strip())
            self._printed += f"\n{result.output}"
            shown = prompts.turn_message(result, left, cut=found.cut, query=self._node.query)
            self._outputs.append((self._reply(reply.text, found, shown), result))
            self._shorten_outputs()
        return None, f"rlm() ran out of turns ({self._engine.limits.max_turns})."

    def _is_printed(self, words: str) -> bool:
        """Tell whether an answer in words gives values that the code has printed, and no others."""
        known = self._node.query
        values = [value for value in _VALUE.findall(words) if value not in known]
        return bool(values) and all(value.strip("\"`'") in self._printed for value in values)

    def _reply(self, answer: str, found: AnswerCode, text: str, *, again: bool = False) -> Message:
        """again: leave out the answer, which the model would repeat if it saw it."""
        reply = Message("user", text)
        if self._node.model.remembers:
            self._conversation.add(Message("assistant", answer))
        elif again:
            before = self._conversation.messages[-1]
            reply = Message("user", f"{before.content}\n\n{text}")
            self._conversation.replace(before, reply)
            self._outputs = deque(
                (reply if message is before else message, result)
                for message, result in self._outputs
            )
            return reply
        else:
            self._conversation.add(Message("assistant", _drop_imagined_output(answer, found)))
        self._conversation.add(reply)
        return reply

    def _shorten_outputs(self) -> None:
        if self._conversation.chars <= _LONG:
            return
        while len(self._outputs) > _WHOLE_OUTPUTS:
            message, result = self._outputs.popleft()
            if len(result.output) > prompts.SHORTENED_OUTPUT:
                short = Message("user", prompts.shortened_turn_message(result))
                self._conversation.replace(message, short)

    async def _ask(self, reserved: Amount | None = None) -> Reply:
        self._turn += 1
        try:
            return await self._engine.calls.ask(
                self._node.id,
                self._turn,
                self._engine.limits.max_turns,
                self._conversation,
                reserved,
            )
        except BudgetSpent:
            self._turn -= 1
            raise

    async def _run_code(
        self, turn: int, sandbox: Sandbox, code: str, calls: SandboxCalls
    ) -> TurnResult:
        self._node.turn = turn
        self._engine.events.send(SearchReplIn(code, node=self._node.id, turn=turn))
        running = asyncio.ensure_future(sandbox.run(code, self._engine.limits.turn_seconds))
        answered = asyncio.ensure_future(calls.answered.wait())
        try:
            await asyncio.wait((running, answered), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():  # its last output, if it comes soon
                await asyncio.wait((running,), timeout=_AFTER_FINAL)
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
            result = TurnResult("final", "", 0, 0.0) if running.cancelled() else running.result()
        finally:
            running.cancel()
            answered.cancel()
        self._engine.events.send(
            SearchReplOut(
                result.output[:_OUTPUT],
                node=self._node.id,
                turn=turn,
                status=result.status,
                duration=result.duration,
                chars=result.chars,
            )
        )
        return result

    async def _last_call(self, reason: str, calls: SandboxCalls) -> tuple[NodeOutcome | None, str]:
        node, found = self._node, self._node.found
        if self._too_long:  # drop the turns between its beginning and its end
            self._conversation.ended = True
            self._conversation = node.model.conversation(*self._conversation.messages[:2])
        known = found.text if self._too_long else found.answers.text
        self._conversation.add(Message("user", prompts.last_message(reason, node.query, known)))
        reserved, self._reserved = self._reserved, Amount()
        try:
            reply = await self._ask(reserved)
        except ContextTooLong as error:
            if self._too_long or not found:
                raise
            self._too_long = True
            return await self._last_call(str(explain_error(error)), calls)
        except Exception:
            found.written.add(self._conversation.partial.strip())  # as far as it came
            raise
        self._engine.events.send(SearchChat(reply.text, node=node.id, turn=self._turn))
        words, code = last_answer(reply.text)
        if code is not None and self.sandbox is not None:
            with suppress(SandboxError):  # the words remain
                result = await self._run_code(self._turn, await self.sandbox, code, calls)
                found.printed.add(result.output.strip())
        if calls.final is not None:
            return calls.final._replace(state="partial"), ""
        return (NodeOutcome(words, "partial") if words else None), ""

    def _reserve_last_call(self) -> None:
        """Reserve what a last call after one more turn would take. Raises `BudgetSpent`; the
        earlier reservation then stays."""
        chars = self._conversation.chars + 2 * _OUTPUT
        wanted = self._engine.calls.estimate(self._node.model, chars)
        self._engine.calls.budget.hold(wanted.minus(self._reserved))
        self._reserved = wanted


def _literal_as_words(found: AnswerCode) -> AnswerCode:
    """Treat a block that is only a literal as an answer in words."""
    with suppress(*_NOT_READ):
        words = str(ast.literal_eval(found.code or ""))
        return AnswerCode(None, feedback=NO_CODE, words=words)
    return found


def _drop_imagined_output(answer: str, found: AnswerCode) -> str:
    if found.code is None or not found.cut:
        return answer
    before, code, _ = answer.partition(found.code)
    if not code:
        before = "```python\n"
    return f"{before}{found.code}\n```"
