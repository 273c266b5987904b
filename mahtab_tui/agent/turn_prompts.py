"""What a model gets for a question: the system prompt, the conversation, and the question itself
with the sections that have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import AnyMessage, SystemMessage

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.message_history import MessageHistory
from mahtab_tui.agent.message_sizes import section_sizes
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.llm.background import background
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.prompt_sections import changed_sections
from mahtab_tui.llm.prompts import system_prompt
from mahtab_tui.llm.token_estimates import estimated_tokens
from mahtab_tui.llm.variable_texts import VALUES_KEY, render_variables

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Variable


class ContextSizes(NamedTuple):
    """How much of a model's window the next question takes."""

    max_tokens: int
    """Tokens that the model can read."""
    section_tokens: Mapping[str, int]
    """An estimate for each section, such as ``outputs``."""


class TurnPrompts:
    """Writes the prompts of an agent's turns. Used on the turn's thread, except for `context_sizes`."""

    def __init__(
        self, host: AgentHost, nodes: Nodes, history: MessageHistory, skills: Mapping[str, str]
    ) -> None:
        """
        Args:
            host: The host of the session.
            nodes: The steps of a turn, which have the model and its tools.
            history: The conversation so far.
            skills: Descriptions by name, in addition to those of the tools.
        """
        self._host = host
        self._nodes = nodes
        self._history = history
        self._skills = dict(skills)

    def add_question(self, prompt: str, turn: int) -> bool:
        """Add a question with its context to the conversation; return whether it is about data."""
        conversation = "\n".join(
            str(message.text) for message in self._history.messages if message.type != "ai"
        )
        question = self._host.add_context(turn, prompt, conversation)
        question = question._replace(variables=self._variables_to_send(question.variables))
        if not self._nodes.leads_small_model:
            question = question._replace(instruction="")
        self._history.ask(question)
        return question.about_data

    def _variables_to_send(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the descriptions of variables that the model gets.

        Only a small model gets the values that a question names: others look for them themselves.

        Args:
            texts: The descriptions by the variables' names, and the values under `VALUES_KEY`.
        """
        if self._nodes.leads_small_model:
            return dict(texts)
        return {name: text for name, text in texts.items() if name != VALUES_KEY}

    def prepare_messages(self, prompt: str, turn: int, system: SystemMessage) -> list[AnyMessage]:
        """Return the conversation for a question, whose beginning may be summarised now. Waits.

        Args:
            prompt: The question, which `add_question` has added.
            turn: Its number.
            system: The system prompt.
        """
        nodes = self._nodes
        summary_end = self._history.summary_end
        summariser = nodes.reflection_llm or nodes.llm
        messages = self._history.prepare(summariser, system, turn, nodes.model.token_limit)
        if self._history.summary_end != summary_end:
            # The descriptions that were not repeated may have been summarised.
            variables = self._host.describe_variables(prompt, "")
            self._history.set_variables(self._variables_to_send(variables))
            messages = self._history.messages

        # Sections are sent when they change, and again if a summary has replaced them.
        texts = [str(message.text) for message in messages]
        changed = changed_sections(self._sections(), texts)
        if changed:
            self._history.extend_question(before=make_encodable(changed))
            messages = self._history.messages
        return messages

    def context_sizes(self, variables: Sequence[Variable]) -> ContextSizes:
        """Return how much of the model's window the next question takes.

        Args:
            variables: Those that will be described to the model.
        """
        max_tokens = self._nodes.model.token_limit
        sizes = section_sizes(self._history.messages, self._host.pictures, max_tokens)
        # Sections that were not sent yet go with the next question.
        for name, text in self._sections().items():
            if name in sizes and not sizes[name] and text:
                sizes[name] = estimated_tokens([text])

        # Descriptions were counted with the words of the questions in which they stand.
        described_tokens = estimated_tokens(self._history.variable_texts())
        sizes["words"] = max(0, sizes["words"] - described_tokens)
        listed_tokens = estimated_tokens([render_variables(variables)]) if variables else 0
        sizes["variables"] = described_tokens + listed_tokens
        program_tokens = estimated_tokens([str(self.system_message().text)])
        return ContextSizes(max_tokens, {"program": program_tokens} | sizes)

    def system_message(self) -> SystemMessage:
        """Return the system prompt.

        What may change within a session is sent with the questions, so that the start of the prompt
        stays the same.
        """
        small = self._nodes.leads_small_model
        tools = self._nodes.toolset
        functions = tools.functions(without_builtin=small) if tools is not None else ()
        offered_tools = self._nodes.model.offered_tools
        unoffered = [function for function in functions if function.called not in offered_tools]
        return SystemMessage(system_prompt(unoffered, small=small))

    def _sections(self) -> dict[str, str]:
        """Return the sections that may change within a session, by their names."""
        sections: dict[str, str] = {}
        # A small model answers more questions right without them.
        if not self._nodes.leads_small_model:
            sections["surroundings"] = self._host.surroundings()
        tools = self._nodes.toolset
        if tools is None:
            return sections | background(self._skills)
        skills = {**tools.skills.descriptions(bundled=False), **self._skills}
        return sections | background(
            skills, tools.loaded.instructions(), tools.instructions(), tools.servers()
        )
