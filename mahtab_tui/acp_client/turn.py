"""Logs what an outside agent does for one question: each update of the agent becomes records.

The agent's tool calls are put together first, because several updates are about one call.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from mahtab_tui.acp_client.protocol import (
    AnswerNews,
    PlanNews,
    ThoughtNews,
    ToolNews,
    Update,
    UsageNews,
)
from mahtab_tui.agent.host import ModelHost
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.records import (
    Agent,
    AssistantChat,
    AssistantChatStream,
    AssistantThought,
    AssistantThoughtStream,
    AssistantTool,
    Window,
    emit,
)
from mahtab_tui.llm.base import make_encodable

MAX_RESULT_CHARS = 12_000
"""Characters of what a tool has returned; the middle of a longer text is left out."""
MAX_ARGUMENTS_CHARS = 10_000
MAX_TITLE_CHARS = 1_000
MAX_SHOWN_CHARS = MAX_TITLE_CHARS + MAX_ARGUMENTS_CHARS + MAX_RESULT_CHARS
"""Characters of a tool call that are kept when it has ended."""
MAX_CALL_CHARS = 1_000_000
"""Characters of a tool call that are kept until then."""
MAX_ASKED_CHARS = 200_000
"""Characters of an action that the user can be asked about."""
FILES_NOT_UNDONE = "Undo does not reach files that this agent's own tools change."
CHANGING_KINDS = ("edit", "delete", "move", "execute")
"""Kinds of tools that may change files."""
_STATES = {"completed": "ok", "failed": "error"}
_PLAN_MARKS = {"completed": "✓", "in_progress": "▸"}
OWN_TOOLS = (
    "activate",
    "eval",
    "info",
    "pkg",
    "reset",
    "rewind",
    "rewind_points",
    "undo",
)
"""The tools that our own server has for an agent that answers."""
_SPELLINGS = (
    "mcp__mahtab__{}",
    "mcp.mahtab.{}",
    "mahtab.{}",
    "mahtab__{}",
    "mahtab_{}",
    "Tool: mahtab/{}",
    "{} (mahtab MCP Server)",
)
"""How agents write the title of a call of such a tool. A path is not among them, because a title may
be a command."""
_OWN_TITLES = frozenset(spelling.format(tool) for spelling in _SPELLINGS for tool in OWN_TOOLS)


@dataclass
class AgentToolCall:
    """A call of one of an agent's own tools."""

    call: str
    """The number of its entry."""
    title: str = ""
    tool_name: str = ""
    """The tool's own name; empty if the agent does not say it."""
    kind: str = ""
    status: str = ""
    arguments: str = ""
    text: str = ""
    """What it has returned, or would change in files; the middle of a longer text is left out."""
    whole_text: str = ""
    """The same without an omission; empty once the call is cut."""
    is_cut: bool = False
    """Whether only what is shown of it is kept, so that the user cannot be asked about it."""
    has_diff: bool = False
    logged: tuple[str, ...] = ()
    """What the newest record of it says."""
    is_refused: bool = False
    """Whether the user has not allowed it."""
    started: float = field(default_factory=time.monotonic)
    """Monotonic time in seconds."""

    @property
    def is_ours(self) -> bool:
        """Whether it calls our own server, so that its cell is in the transcript anyway."""
        # A title is often what is called, such as the command of a shell.
        name = self.tool_name or self.title
        return self.kind not in CHANGING_KINDS and name in _OWN_TITLES

    @property
    def has_ended(self) -> bool:
        return self.status in _STATES

    def update(self, news: ToolNews) -> None:
        """Take over what is new."""
        self.title = self.title if news.title is None else news.title
        self.tool_name = news.tool_name or self.tool_name
        self.kind = news.kind or self.kind
        self.status = news.status or self.status
        self.arguments = self.arguments if news.arguments is None else news.arguments
        if news.text is not None:
            self.text = shorten(news.text, MAX_RESULT_CHARS)
            self.whole_text = news.text
            self.has_diff = news.has_diff
        max_chars = MAX_SHOWN_CHARS if self.has_ended else MAX_CALL_CHARS
        self.is_cut = self.is_cut or self.char_count > max_chars
        if self.is_cut:
            self.title = self.title[:MAX_TITLE_CHARS]
            self.arguments = self.arguments[:MAX_ARGUMENTS_CHARS]
            self.whole_text = ""

    @property
    def char_count(self) -> int:
        return len(self.title) + len(self.arguments) + len(self.whole_text)

    @property
    def details(self) -> str:
        """What it has returned and changed, and whether undo reaches that."""
        if (self.has_diff or self.kind in CHANGING_KINDS) and not self.is_refused:
            # First, because the rest is folded.
            return f"{FILES_NOT_UNDONE}\n{self.text}".rstrip()
        return self.text


class AgentTurn:
    """Logs what an agent does for one question."""

    def __init__(self, host: ModelHost, party: str, turn: int) -> None:
        """
        Args:
            host: The session.
            party: The agent's name.
            turn: The number of the question.
        """
        self._host = host
        self._party = party
        self.number = turn
        self._step = 0
        """The number of the answer that is being written, from 0."""
        self._words: list[str] = []
        """The pieces of the answer since the last tool call."""
        self._thoughts: list[str] = []
        """The pieces of the thinking that goes on."""
        self._tools: dict[str, AgentToolCall] = {}
        """The tool calls by the agent's ids."""
        self._answers: list[str] = []
        """The words before, between and after the tool calls."""
        self.char_count = 0
        """Characters of the words and thoughts so far, as the agent has sent them."""
        self.tool_char_count = 0
        """Characters that are kept of tool calls, and of the records of these and of plans."""

    @property
    def answer(self) -> str:
        """The words after the last tool call, or before it if there are none."""
        return self._answers[-1] if self._answers else ""

    def follow(self, update: Update) -> None:
        """Log an update."""
        match update:
            case AnswerNews(text):
                self._add_words(text)
            case ThoughtNews(text):
                self._add_thought(text)
            case ToolNews():
                self._follow_tool(update)
            case PlanNews():
                self._show_plan(update)
            case UsageNews():
                window = Window(tokens=update.used_tokens, size=update.context_tokens)
                emit(self._host.log, window)

    def _add_words(self, text: str) -> None:
        """Log a piece of the answer."""
        self._end_thoughts()
        words = make_encodable(text)
        self._words.append(words)
        self.char_count += len(text)
        piece = AssistantChatStream(
            words, turn=self.number, step=self._step, party=self._party, kind="prose"
        )
        emit(self._host.log, piece)

    def _add_thought(self, text: str) -> None:
        """Log a piece of what the agent thinks."""
        thought = make_encodable(text)
        self._thoughts.append(thought)
        self.char_count += len(text)
        piece = AssistantThoughtStream(
            thought, turn=self.number, step=self._step, party=self._party
        )
        emit(self._host.log, piece)

    def _show_plan(self, news: PlanNews) -> None:
        """Log the agent's plan, which replaces the one before."""
        lines = [f"{_PLAN_MARKS.get(state, '·')} {step}" for step, state in news.steps]
        text = shorten("\n".join(lines), MAX_RESULT_CHARS)
        self.tool_char_count += len(text)
        plan = self._tool_record(f"{self.number}.plan", "plan", "ok", text)
        emit(self._host.log, plan.changed(is_plan=True))

    @property
    def tool_count(self) -> int:
        return len(self._tools)

    def tool(self, news: ToolNews) -> AgentToolCall:
        """Return a tool call with what is new about it."""
        tool = self._tools.get(news.id)
        if tool is None:
            tool = AgentToolCall(f"{self.number}.{self._step}.{len(self._tools)}")
            self._tools[news.id] = tool
            self.tool_char_count += len(news.id)
        self.tool_char_count -= tool.char_count
        tool.update(news)
        self.tool_char_count += tool.char_count
        return tool

    def end(self, state: str) -> None:
        """Log the end of the answer.

        Args:
            state: As in `records.Agent`.
        """
        for tool in self._tools.values():
            if not tool.has_ended and not tool.is_ours:
                self._show_tool(tool, "stopped")
        self._end_words(is_stopped=state != "done")
        self._report(state)

    def _report(self, state: str) -> None:
        """Log what the agent does.

        Args:
            state: As in `records.Agent`.
        """
        record = Agent(state=state, turn=self.number, step=self._step, party=self._party)
        emit(self._host.log, record)

    def _follow_tool(self, news: ToolNews) -> None:
        """Log what is new about a tool call, if the user should see it."""
        is_new = news.id not in self._tools
        if is_new:
            self._end_words()
        tool = self.tool(news)
        # Between its beginning and its end, only its name and its arguments matter.
        is_worth_showing = is_new or tool.has_ended or news.title or news.arguments
        if is_worth_showing and not tool.is_ours:
            self._show_tool(tool, _STATES.get(tool.status, "running"))
        if tool.has_ended or tool.is_ours:
            self._report("thinking")

    def _show_tool(self, tool: AgentToolCall, state: str) -> None:
        """Log a tool call, unless its newest record says the same.

        Args:
            tool: The tool call.
            state: As in `AssistantTool`.
        """
        title = tool.title.strip() or tool.kind or "a tool"
        arguments = make_encodable(tool.arguments[:MAX_ARGUMENTS_CHARS])
        record = self._tool_record(tool.call, title, state, tool.details)
        logged = (state, record.name, arguments, record.text)
        if logged == tool.logged:
            return
        tool.logged = logged
        self.tool_char_count += sum(map(len, logged))
        if state != "running":
            record = record.changed(duration=round(time.monotonic() - tool.started, 3))
        emit(self._host.log, record.changed(arguments=arguments))

    def _tool_record(self, call: str, title: str, state: str, text: str) -> AssistantTool:
        return AssistantTool(
            make_encodable(text),
            call=call,
            turn=self.number,
            step=self._step,
            party=self._party,
            name=make_encodable(title[:MAX_TITLE_CHARS]),
            state=state,
        )

    def _end_thoughts(self) -> None:
        """Log the thinking so far as a whole; what follows is another one."""
        if self._thoughts:
            thought = AssistantThought(
                "".join(self._thoughts), turn=self.number, step=self._step, party=self._party
            )
            self._thoughts.clear()
            emit(self._host.log, thought)

    def _end_words(self, *, is_stopped: bool = False) -> None:
        """Log the words so far as an answer; what follows is another one."""
        self._end_thoughts()
        text = "".join(self._words).strip("\n")
        if not text.strip():
            return
        self._words.clear()
        self._answers.append(text)
        answer = AssistantChat(
            text,
            turn=self.number,
            step=self._step,
            party=self._party,
            stopped=is_stopped,
            is_prose=True,
        )
        emit(self._host.log, answer)
        self._step += 1


def describe_permission(tool: AgentToolCall) -> str:
    """Return what a tool would do, for the user who is asked; empty if it cannot be shown whole.

    Characters in it may be hidden.
    """
    if tool.is_cut:
        return ""
    lines = [f"# {tool.title.strip() or tool.kind or 'a tool'}"]
    arguments = json.loads(tool.arguments or "null")
    if tool.has_diff or not arguments:
        lines.append(tool.whole_text)
    elif isinstance(arguments, dict):
        lines += [f"{name} = {value}" for name, value in arguments.items()]
    else:
        lines.append(str(arguments))
    text = make_encodable("\n".join(lines))
    return text if len(text) <= MAX_ASKED_CHARS else ""
