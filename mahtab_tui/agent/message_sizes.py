"""How many tokens the parts of a conversation have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.message_fitting import OUTPUT, estimate_size
from mahtab_tui.agent.message_pictures import pictures_to_send
from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.token_estimates import estimate_message_tokens, estimated_tokens

_SECTIONS = (
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "attachments",
)
_SECTION_TAG = re.compile(rf"^<(/?)({'|'.join(_SECTIONS)})>$", re.MULTILINE)


def _question_index(messages: Sequence[AnyMessage], turn: int | None) -> int:
    """Return the index of the question that is being answered: before the first answer of its
    turn."""
    for index, message in enumerate(messages):
        if index > 0 and (message.id or "").startswith(f"{turn}."):
            return index - 1
    return len(messages) - 1


def _drop_oldest(
    messages: Sequence[AnyMessage], question_index: int, max_tokens: int
) -> list[AnyMessage]:
    """Drop earlier questions, and then the oldest steps of the answer to the last one, until the
    messages fit. Notes say what is left out.

    Args:
        messages: The conversation, as text.
        question_index: The index of the question that is being answered.
        max_tokens: Tokens that all messages may have.
    """
    earlier = list(messages[:question_index])
    last_question = messages[question_index]
    question = str(last_question.text)
    steps = list(messages[question_index + 1 :])
    notes = [prompts.BEGINNING_OMITTED, prompts.STEPS_OMITTED]
    available_tokens = max_tokens - estimate_message_tokens([question, *notes])

    # Whole questions with their answers are dropped, so that the first message is the user's.
    while earlier and estimate_size([*earlier, *steps]) > available_tokens:
        del earlier[0]
        while earlier and earlier[0].type != "human":
            del earlier[0]
    if not earlier and question_index > 0:
        question = f"{prompts.BEGINNING_OMITTED}\n\n{question}"
    elif len(earlier) < question_index:
        earlier[0] = HumanMessage(f"{prompts.BEGINNING_OMITTED}\n\n{earlier[0].text}")

    # A step is an answer and its results; the newest one is kept.
    step_messages = len(steps)
    while len(steps) > 2 and estimate_size(steps) > available_tokens:
        del steps[:2]
    if len(steps) < step_messages:
        question = f"{question}\n\n{prompts.STEPS_OMITTED}"
    return [*earlier, last_question.model_copy(update={"content": question}), *steps]


def section_sizes(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], max_tokens: int
) -> dict[str, int]:
    """Return tokens by section, and those of ``outputs``, ``words`` and ``pictures``.

    Args:
        messages: The messages.
        pictures: All pictures by their ids.
        max_tokens: What pictures may use.
    """
    texts: dict[str, list[str]] = {name: [] for name in (*_SECTIONS, "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            text = _move_sections(text, texts)
            texts["outputs"] += [match[3] for match in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: estimated_tokens(section_texts) for name, section_texts in texts.items()}
    sent_pictures = pictures_to_send(messages, pictures, max_tokens).values()
    return sizes | {"pictures": sum(picture.tokens for picture in sent_pictures)}


def _move_sections(text: str, texts: dict[str, list[str]]) -> str:
    """Return a message without its sections, which are added to `texts` by their names."""
    other_texts: list[str] = []
    start = 0
    open_name = ""
    for tag in _SECTION_TAG.finditer(text):
        is_end = bool(tag[1])
        if not open_name and not is_end:
            other_texts.append(text[start : tag.start()])
            start = tag.start()
            open_name = tag[2]
        elif is_end and tag[2] == open_name:
            texts[open_name].append(text[start : tag.end()])
            start = tag.end()
            open_name = ""
    return "".join((*other_texts, text[start:]))
