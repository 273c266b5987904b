"""One call of a model by the agent: within what the session may cost, and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage

from mahtab_tui.agent.hearing import ModelAnswer, OnToken, hear
from mahtab_tui.agent.host import AgentHost
from mahtab_tui.llm.masked import masked_messages
from mahtab_tui.llm.pictures import pictures_in
from mahtab_tui.llm.spending import OverBudget
from mahtab_tui.llm.usage import model_name, worst_cost

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def call(
    host: AgentHost,
    llm: BaseChatModel,
    messages: Sequence[AnyMessage],
    turn: int,
    source: Literal["agent", "reflection", "summary"],
    on_pause: Callable[[str], object],
    on_token: OnToken = lambda token: None,
    options: Mapping[str, Any] | None = None,
) -> ModelAnswer:
    """What the model says, as `hear` has it, when it is told the messages without the secrets; one that could cost too much is not asked, and has failed."""

    messages = masked_messages(messages, host.secrets)

    def worst() -> float | None:
        calls = (str(message.tool_calls) for message in messages if isinstance(message, AIMessage) and message.tool_calls)
        return worst_cost(llm, [*(str(message.text) for message in messages), *calls, str(options or "")], pictures_in(messages))

    try:
        with host.spending.afford(model_name(llm) or llm._llm_type, worst):
            answer = hear(llm, messages, host.cancelled, on_token, on_pause, options)
            if answer.usage is not None:
                host.usage(answer.usage.changed(source=source, turn=turn))
    except OverBudget as refusal:
        return ModelAnswer("", stopped=False, cut=False, failure=str(refusal), usage=None)
    return answer
