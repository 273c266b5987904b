"""The parts of a prompt that are set off by tags, so that no text from outside can pass for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.record_xml import escape_content, escape_tags, format_attributes

STALE = "Outputs that may not hold any more, because a variable is different now (In 2 is cell 2):\n{cells}"
HOLDING = "Outputs that hold again, because their variables are as they were: {cells}"

_SECTIONS = (
    "surroundings",
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "working-folder",
    "recent-activity",
    "stale-outputs",
    "attachments",
)
"""The tags of all sections."""
MESSAGE_TAGS = {"human": "user", "ai": "assistant", "tool": "tool"}
"""The tags of messages in a request for a summary, by the type of message."""
SUMMARY_TAGS = ("keep", "earlier-conversation", "conversation", *MESSAGE_TAGS.values())
"""The tags of all elements of a request for a summary."""
_NOTHING_NOW = "(none now)"
"""The content of a section that has become empty."""


def render_element(tag: str, content: str, *, name: str = "", has_records: bool = False) -> str:
    """Put content between tags, each on a line of its own.

    It can open and close no element of the same prompt.

    Args:
        tag: The element's name.
        content: Any text.
        name: The value of the attribute `name`; without one if empty.
        has_records: Whether the tags of records, and control characters, are left as they are:
            the content has records in it, or the section around the element escapes them.
    """
    if not has_records:
        content = escape_content(escape_controls(content))
    sibling_tags = SUMMARY_TAGS if tag in SUMMARY_TAGS else ()
    content = escape_tags(content, tag, *_SECTIONS, *sibling_tags)
    attributes = format_attributes({"name": name}) if name else ""
    return f"<{tag}{attributes}>\n{content}\n</{tag}>"


def escape_section(text: str) -> str:
    """Escape text from outside so that it neither forges nor ends a section or a record."""
    return escape_tags(escape_content(escape_controls(text)), *_SECTIONS)


def escape_sections(element: str) -> str:
    """Escape the tags of sections in a record, which could pass for one that was sent."""
    return escape_tags(element, *_SECTIONS)


def one_line(text: str) -> str:
    """Return text from outside as one line, with symbols for its control characters."""
    return escape_controls(text).replace("\n", " ")


def earlier_conversation(summary: str) -> str:
    """Return the section with the summary of the beginning of a conversation."""
    return render_element("earlier-conversation", summary)


def render_context(
    activity: str, attachments: str = "", folder: str = "", stale: str = "", holding: str = ""
) -> str:
    """Format what the model gets with a question.

    Args:
        activity: What the user did since the last question.
        attachments: The elements of the files that the user attached.
        folder: The names and sizes of the files in the working directory.
        stale: The cells whose output no longer holds, a line each.
        holding: The cells whose output holds again.

    Returns:
        A section for each that is not empty.
    """
    sections: list[str] = []
    if folder:
        sections.append(render_element("working-folder", folder))
    if activity:
        sections.append(render_element("recent-activity", activity, has_records=True))
    notes = [STALE.format(cells=stale)] if stale else []
    if holding:
        notes.append(HOLDING.format(cells=holding))
    if notes:
        sections.append(render_element("stale-outputs", "\n".join(notes)))
    if attachments:
        sections.append(render_element("attachments", attachments, has_records=True))
    return "\n\n".join(sections)


def changed_sections(sections: Mapping[str, str], texts: Sequence[str]) -> str:
    """Format the sections that differ from their newest version in a conversation.

    Args:
        sections: The content of each section as it is now, by name; empty if there is none.
        texts: The messages of the conversation, oldest first.
    """
    changed: list[str] = []
    for name, text in sections.items():
        last_section = _last_section(name, texts)
        if not text and not last_section:
            continue
        section = render_element(name, text or _NOTHING_NOW)
        if section != last_section:
            changed.append(section)
    return "\n\n".join(changed)


def _last_section(name: str, texts: Sequence[str]) -> str:
    """Return the newest version of a section; empty if there is none."""
    for text in reversed(texts):
        _, start_tag, following = text.rpartition(f"<{name}>\n")
        content, end_tag, _ = following.partition(f"\n</{name}>")
        if start_tag and end_tag:
            return f"{start_tag}{content}{end_tag}"
    return ""
