"""Reads the words of HTML, for outputs and files that are shown as text."""

from __future__ import annotations

import re

from ..stdlib import late_import

_UNREAD_MARKUP = re.compile(
    r"""
    <(?:script|style)\b .*? (?: </(?:script|style)\s*> | \Z )   # code, and how things look
    | <!-- .*? (?: --> | \Z )                                   # a comment
    | <(?:!doctype\b|\?[a-z]) [^>]* >?                          # a declaration, as of XML
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
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
"""A tag before or after which a line begins."""
_WORD_TAG = re.compile(
    r"</? (?: td | th | dt | dd | select | optgroup | option | input | button | label | sup | sub ) \b [^>]* >?",
    re.IGNORECASE | re.VERBOSE,
)
"""A tag that separates words, and numbers: two cells are not one number."""
_PREFORMATTED_OR_SPACE = re.compile(
    r"""
    ( <pre\b .*? (?: </pre\s*> | \Z ) )     # an element in which white space stays
    | \s+                                   # white space elsewhere, which counts as one blank
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[^\t\n\f <&#;]{1,32});?")
"""A reference to a character, such as ``&lt;`` and ``&#60;``, as `html.unescape` knows them."""
_MAX_REFERENCE_CHARS = 40
"""A longer one stays as it is: to read a number takes long, and Python refuses thousands of digits."""
_ANY_TAG = re.compile(r"</?[a-zA-Z][^>]*>?")


def html_words(html: str) -> str:
    """Return the words of HTML, a line for each paragraph.

    Args:
        html: A page, or a part of one. It need not be valid.

    Returns:
        Lines without blanks around them; none is empty.
    """
    # Scripts go first: what they contain may look like a tag.
    text = _UNREAD_MARKUP.sub(" ", html)
    text = _WORD_TAG.sub(" ", text)
    # Line breaks of the source are white space, so the breaks that tags mean come after them.
    text = _PREFORMATTED_OR_SPACE.sub(lambda match: match[1] or " ", text)
    text = _LINE_TAG.sub("\n", text)
    text = _ANY_TAG.sub("", text)

    # References go last: `&lt;b&gt;` is a text about a tag.
    text = _REFERENCE.sub(_unescape, text)
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join(line for line in lines if line)


def _unescape(match: re.Match[str]) -> str:
    reference = match[0]
    if len(reference) > _MAX_REFERENCE_CHARS:
        return reference
    character: str = late_import("html").unescape(reference)
    return character
