"""Reads the words of HTML, for outputs and files that are shown as text."""

from __future__ import annotations

import re

from ..stdlib import late_import

_UNREAD_MARKUP = re.compile(
    r"""
    <(?:script|style)\b .*? (?: </(?:script|style)\s*> | \Z )   # code, and how things look
    | <!-- .*? (?: --> | \Z )                                   # a comment
    | <(?:!doctype\b|\?[a-z]) [^>]* >?                          # a declaration, of HTML or XML
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""Parts of a page that nobody reads, with what they contain."""
_LINE_TAG = re.compile(
    r"""
    </? (?:
        html | head | title | body
        | p | div | h[1-6] | pre | blockquote | address | br | hr
        | li | ul | ol | dl
        | tr | table | caption
        | dialog | hgroup | menu | search
        | section | article | header | footer | main | nav | aside
        | figure | figcaption | details | summary
        | form | fieldset | legend | textarea
    ) \b [^>]* >?
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A tag at which a new line begins."""
_WORD_TAG = re.compile(
    r"""
    </? (?:
        td | th | dt | dd
        | select | optgroup | option | input | button | label
        | sup | sub
    ) \b [^>]* >?
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A tag that separates words: the numbers of two cells of a table are not one number."""
_ANY_TAG = re.compile(r"</?[a-zA-Z][^>]*>?")
"""A tag of any other element, such as ``<b>``, which may stand in the middle of a word."""
_PREFORMATTED_OR_SPACE = re.compile(
    r"""
    ( <pre\b .*? (?: </pre\s*> | \Z ) )     # group 1: an element whose white space counts
    | \s+                                   # white space elsewhere, which counts as one blank
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_CHARACTER_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[^\t\n\f <&#;]{1,32});?")
"""A character written as ``&lt;`` or ``&#60;``; the same forms as `html.unescape` knows."""
_MAX_REFERENCE_CHARS = 40
"""Maximum characters of a reference that is read. Numbers of many digits take long to read, and
Python refuses those with thousands."""


def html_words(html: str) -> str:
    """Return the words of HTML, a line for each paragraph.

    Args:
        html: A page, or a part of one. It need not be valid.

    Returns:
        Lines without blanks around them. None of them is empty.
    """
    # Scripts go first, because their code may look like tags.
    text = _UNREAD_MARKUP.sub(" ", html)
    text = _WORD_TAG.sub(" ", text)
    # Line breaks of the source are white space; only after they are gone, tags make line breaks.
    text = _PREFORMATTED_OR_SPACE.sub(_collapse_space, text)
    text = _LINE_TAG.sub("\n", text)
    text = _ANY_TAG.sub("", text)
    # References go last, because `&lt;b&gt;` is not a tag but a text about one.
    text = _CHARACTER_REFERENCE.sub(_read_reference, text)

    lines = [line.strip() for line in text.split("\n")]
    return "\n".join(line for line in lines if line)


def _collapse_space(match: re.Match[str]) -> str:
    """Return a preformatted element as it is, and white space elsewhere as one blank."""
    return match[1] or " "


def _read_reference(match: re.Match[str]) -> str:
    """Return the character that a reference means; a reference that is too long as it is."""
    reference = match[0]
    if len(reference) > _MAX_REFERENCE_CHARS:
        return reference
    character: str = late_import("html").unescape(reference)
    return character
