"""Recognises the encoding of a text file."""

from __future__ import annotations

import codecs
import itertools
import re
import unicodedata
from typing import IO, NamedTuple

from mahtab_tui.knowledge.text_decoding import marked_encoding, single_byte_encoding

_CHUNK_BYTES = 1_048_576
_SAMPLE_BYTES = 65_536
"""Bytes, from the first one that is not UTF-8, by which the encoding is guessed."""
_CONTROL_BYTES_IN_TEXT = b"\t\n\r\f\x1b"
"""Control characters that texts contain; many others mean that a file is not a text."""
_MAX_CONTROL_SHARE = 0.05
_SPECIAL_BYTES = re.compile(rb"[\x80-\xff]+")
_SAMPLED_CHARACTERS = 2_000
_MIN_WORD_BYTES = 4
"""Special bytes in a row that are a word rather than Western quotation marks."""


class TextEncoding(NamedTuple):
    """The encoding of a file, as far as it can be recognised."""

    name: str
    """Python's name of it; empty if the file is not a text."""
    is_guess: bool = False
    is_damaged: bool = False
    """Whether some bytes are not valid in this encoding."""


def guess_encoding(beginning: bytes) -> str:
    """Guess the encoding of a text by its beginning; empty if it is not a text."""
    return _guess_encoding(beginning).name


def inspect_encoding(file: IO[bytes], beginning: bytes, max_bytes: int) -> TextEncoding:
    """Return the encoding of a whole file.

    A text that begins as UTF-8 may be in another encoding: its first special character may be far
    from its beginning.

    Args:
        file: The open file, which must be seekable.
        beginning: Its first bytes.
        max_bytes: How many bytes to read at most.
    """
    encoding = _guess_encoding(beginning)
    if encoding.name == "utf-8" and not encoding.is_damaged:
        encoding = _check_utf8(file, max_bytes)
    if not encoding.is_guess:
        return encoding

    # The guess comes from a sample; the rest of the file may refute it.
    if _find_undecodable(file, encoding.name, max_bytes) is None:
        return encoding
    if encoding.name == "cp1252":
        # Latin-1 has the same letters, and a character for every byte.
        return encoding._replace(name="latin-1")
    return encoding._replace(is_damaged=True)


def _check_utf8(file: IO[bytes], max_bytes: int) -> TextEncoding:
    """Return the encoding of a file that begins as UTF-8."""
    damage = _find_undecodable(file, "utf-8", max_bytes)
    if damage is None:
        return TextEncoding("utf-8")
    # A text that has valid characters of UTF-8 before the damage is UTF-8.
    if damage.follows_special:
        return TextEncoding("utf-8", is_damaged=True)
    return _guess_encoding(damage.sample)


class _Damage(NamedTuple):
    """The first place in a file whose bytes are not valid in an encoding."""

    sample: bytes
    """The invalid bytes, and those after them."""
    follows_special: bool
    """Whether characters other than ASCII precede the place."""


def _find_undecodable(file: IO[bytes], encoding: str, max_bytes: int) -> _Damage | None:
    """Return the first bytes of a file that cannot be decoded; None if all can."""
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    is_ascii = True
    byte_count = 0
    while byte_count < max_bytes:
        data = file.read(_CHUNK_BYTES)
        byte_count += len(data)
        try:
            decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            sample = error.object[error.start :] + file.read(_SAMPLE_BYTES)
            is_ascii = is_ascii and error.object[: error.start].isascii()
            return _Damage(sample[:_SAMPLE_BYTES], not is_ascii)
        if not data:
            break
        is_ascii = is_ascii and data.isascii()
    return None


def _guess_encoding(beginning: bytes) -> TextEncoding:
    if marked := marked_encoding(beginning):
        return TextEncoding(marked)
    control_count = sum(byte < 32 and byte not in _CONTROL_BYTES_IN_TEXT for byte in beginning)
    if b"\0" in beginning or control_count > _MAX_CONTROL_SHARE * len(beginning):
        return TextEncoding("")

    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return _guess_older_encoding(beginning)
    return TextEncoding("utf-8")


def _guess_older_encoding(data: bytes) -> TextEncoding:
    """Guess the encoding of a text that is not valid UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    invalid_count = sum("\udc80" <= character <= "\udcff" for character in text)
    special_count = sum(character > "\x7f" for character in text)
    if 2 * invalid_count < special_count:
        return TextEncoding("utf-8", is_damaged=True)

    if _has_special_words(data):
        from charset_normalizer import from_bytes

        match = from_bytes(data).best()
        if match is not None and _is_other_script(str(match)):
            return TextEncoding(match.encoding, is_guess=True)
    return TextEncoding(single_byte_encoding(data), is_guess=True)


def _has_special_words(data: bytes) -> bool:
    """Return whether most special bytes have another one beside them, as in Cyrillic, Greek and
    Asian texts. In Western ones, letters with accents stand alone."""
    run_lengths = [len(run) for run in _SPECIAL_BYTES.findall(data)]
    if max(run_lengths, default=0) < _MIN_WORD_BYTES:
        return False
    joined_count = sum(length for length in run_lengths if length > 1)
    return 2 * joined_count > sum(run_lengths)


def _is_other_script(text: str) -> bool:
    """Return whether most special characters are letters of a script other than Latin."""
    special_characters = (character for character in text if character > "\x7f")
    sample = list(itertools.islice(special_characters, _SAMPLED_CHARACTERS))
    letters = [
        character
        for character in sample
        if character.isalpha() and "LATIN" not in unicodedata.name(character, "LATIN")
    ]
    return 2 * len(letters) > len(sample)
