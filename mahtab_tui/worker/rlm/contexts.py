"""Converts a context, or several named ones, to one text for a search."""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..sandbox.names import name_problem
from ..walking import walk_folders
from .context_keywords import rejection_reason

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAMPLE_BYTES = 8_192
"""Bytes of a file by which it is recognised as text."""
_MAX_FILES = 10_000
"""Files of a folder."""
_MAX_NOTICES = 10
"""Files of a folder whose encoding is reported."""
_MAX_PATH_CHARS = 1_000
"""Characters up to which a string may be the name of a file."""
_MAX_COLUMNS = 100
"""Columns of a table whose names the model is told."""
_TEXT_KEYS = ("page_content", "text", "content")
"""The keys under which documents of libraries have their text."""

_DocumentSpan = tuple[str, int, int]
"""The name of a document, and its start and end in the text, in characters."""


class ContextError(Exception):
    """A value cannot be searched. The message is a sentence that gives the reason."""


class NamedContext(NamedTuple):
    """One of several contexts."""

    name: str
    kind: str
    """What the model's code gets: a `str`, or a `list` or `dict` of documents."""
    start: int
    """Where it begins in the whole text, in characters."""
    end: int
    parts: tuple[_DocumentSpan, ...] = ()
    """Its documents, by their places in the whole text."""
    about: str = ""


class ContextText(NamedTuple):
    """What is searched, as one text."""

    text: str
    kind: str = "str"
    """What the model's code gets: a `str`, or a `list` or `dict` of documents."""
    parts: tuple[_DocumentSpan, ...] = ()
    """The documents of a list or dict."""
    about: str = ""
    """What it is, for the model; empty if there is nothing to say."""
    notices: tuple[str, ...] = ()
    """Sentences for the user."""
    contexts: tuple[NamedContext, ...] = ()
    """The contexts that it consists of, if they have names."""


def read_context(source: Any) -> ContextText:
    """Read a context of any kind. Raises `ContextError`."""
    if isinstance(source, str):
        return _read_string(str(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        decoded = _decode(bytes(source), "The bytes")
        return ContextText(decoded.text, notices=decoded.notices)
    if isinstance(source, os.PathLike):
        return _read_path(Path(source))
    if _is_table(source):
        return _read_table(source)
    # A Series, whose labels would be lost in a list.
    if hasattr(source, "to_frame") and _is_labelled(getattr(source, "index", None)):
        return _read_table(source.to_frame())
    if isinstance(source, Mapping):
        return _join("dict", ((str(key), _document_text(value)) for key, value in source.items()))
    if hasattr(source, "read"):
        return read_context(source.read())
    library_text = _text_of_document(source)
    if library_text is not None:
        return ContextText(library_text)
    if hasattr(source, "__iter__"):
        documents = ((str(number), _document_text(item)) for number, item in enumerate(source))
        return _join("list", documents)
    raise ContextError(
        f"A value of type {type(source).__name__} cannot be searched. A context is a str, bytes, a path object, a list of strings or documents, a dict, or a DataFrame."
    )


def _read_string(text: str) -> ContextText:
    """Read a string, with a notice if it is the name of a file."""
    may_be_path = len(text) <= _MAX_PATH_CHARS and text.strip() and text.isprintable()
    if may_be_path and os.path.exists(text):
        notice = f"The string {text!r} itself is searched; to search the file of that name, pass pathlib.Path({text!r})."
        return ContextText(text, notices=(notice,))
    return ContextText(text)


def read_contexts(
    context: object,
    contexts: Mapping[str, object] | None,
    keywords: Mapping[str, object],
    options: Iterable[str],
) -> ContextText:
    """Read one context, or several by name.

    Args:
        context: The only one, without a name; None if all have names.
        contexts: Contexts by name.
        keywords: Contexts passed like options.
        options: The names of options, one of which may be misspelt.

    Raises:
        ContextError: They cannot be searched.
    """
    for name, value in keywords.items():
        if problem := rejection_reason(name, value, options):
            raise ContextError(problem)
    named_contexts = {**(contexts or {}), **keywords}
    if not named_contexts:
        if context is None:
            raise ContextError("There is nothing to search: give a text, or several by name.")
        return read_context(context)
    if context is not None:
        raise ContextError(
            f"Give one context, or all of them by name: the first one has no name, unlike {', '.join(named_contexts)}."
        )
    return _read_named(named_contexts)


def _read_named(named_contexts: Mapping[str, object]) -> ContextText:
    """Read several contexts. Raises `ContextError`, whose message names the context."""
    texts_by_name: dict[str, ContextText] = {}
    for name, value in named_contexts.items():
        if problem := name_problem(name):
            raise ContextError(f"A context cannot be named {name!r}: {problem}.")
        try:
            texts_by_name[name] = read_context(value)
        except ContextError as error:
            raise ContextError(f"The context {name!r}: {error}") from None

    joined = _join("dict", ((name, context.text) for name, context in texts_by_name.items()))
    contexts: list[NamedContext] = []
    notices: list[str] = []
    for (name, start, end), context in zip(joined.parts, texts_by_name.values()):
        # In the whole text, the documents of this context are further behind.
        parts = tuple(
            (part, start + part_start, start + part_end)
            for part, part_start, part_end in context.parts
        )
        contexts.append(NamedContext(name, context.kind, start, end, parts, context.about))
        notices += context.notices
    return joined._replace(notices=tuple(notices), contexts=tuple(contexts))


class _DecodedText(NamedTuple):
    text: str
    notices: tuple[str, ...] = ()
    """Says how it was read, if it is not Unicode."""


def _decode(data: bytes, source_name: str) -> _DecodedText:
    """Decode as UTF-16, UTF-8, Windows-1252 or Latin-1, as `search_code` does.

    Args:
        data: The bytes.
        source_name: What has them, as the subject of the notice.
    """
    if data.startswith(_UTF_16_MARKS):
        return _DecodedText(data.decode("utf-16", "replace"))
    with suppress(UnicodeDecodeError):
        return _DecodedText(data.decode("utf-8-sig"))

    text = data.decode("latin-1")
    encoding = "Latin-1"
    # These are letters and signs in Windows-1252, and nothing in Latin-1.
    if any(0x80 <= byte < 0xA0 for byte in set(data)):
        with suppress(UnicodeDecodeError):
            text = data.decode("cp1252")
            encoding = "Windows-1252"
    notice = f"{source_name} are not valid UTF-8, and were read as {encoding}."
    return _DecodedText(text, (notice,))


def _read_path(path: Path) -> ContextText:
    try:
        if path.is_dir():
            return _read_folder(path)
        decoded = _decode(_read_file(path), f"The bytes of {path}")
    except OSError as error:
        raise ContextError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # an invalid file name
        raise ContextError(f"{str(path)!r} cannot be read: {error}.") from None
    return ContextText(decoded.text, about=f"the file {path.name}", notices=decoded.notices)


def _read_file(path: Path) -> bytes:
    """Read a file; devices and pipes, which may be endless or block, raise `ContextError`."""
    # O_NONBLOCK, because opening a pipe without a writer would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ContextError(
                f"{path} is not a file but a device or a pipe, which may be endless. Read what you need from it, and pass that."
            )
        return file.read()


def _read_folder(path: Path) -> ContextText:
    """Read all text files in a folder and its subfolders as a dict by their paths. Raises
    `ContextError` and `OSError`."""
    os.scandir(path).close()  # of its own folder, an error is reported
    documents: list[tuple[str, str]] = []
    notices: list[str] = []
    omitted_count = 0
    for file_count, file in enumerate(_visible_files(path), 1):
        if file_count > _MAX_FILES:
            raise ContextError(
                f"There are more than {_MAX_FILES:,} files in {path}. Pass a subfolder, or a list of texts."
            )
        data = _read_text_file(file)
        if data is None:
            omitted_count += 1
            continue
        decoded = _decode(data, f"The bytes of {file}")
        documents.append((str(file.relative_to(path)), decoded.text))
        notices += decoded.notices
    if not documents:
        raise ContextError(f"There are no text files in {path}.")

    del notices[_MAX_NOTICES:]
    if omitted_count:
        notices.append(
            f"Files in {path} that are not text, or cannot be read, were left out: {omitted_count:,}."
        )
    return _join("dict", documents)._replace(notices=tuple(notices))


def _visible_files(path: Path) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders, in order, without hidden ones."""
    for folder, subfolders, names in walk_folders(str(path)):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder, name)


def _read_text_file(file: Path) -> bytes | None:
    """Return the bytes of a file; None if it cannot be read, or is not text."""
    try:
        data = _read_file(file)
    except (OSError, ContextError):
        return None
    is_binary = b"\0" in data[:_SAMPLE_BYTES] and not data.startswith(_UTF_16_MARKS)
    return None if is_binary else data


def _is_table(value: object) -> bool:
    return hasattr(value, "columns") and (hasattr(value, "to_csv") or hasattr(value, "write_csv"))


def _is_labelled(index: Any) -> bool:
    """Return whether the index is more than row numbers from 0."""
    if type(index).__name__ != "RangeIndex":
        return hasattr(index, "names")
    return (index.start, index.step, index.name) != (0, 1, None)


def _read_table(frame: Any) -> ContextText:
    """Read a table of pandas or polars as CSV."""
    columns = [str(column) for column in frame.columns]
    if not hasattr(frame, "to_csv"):
        text = str(frame.write_csv())
    elif _is_labelled(getattr(frame, "index", None)):
        text = str(frame.to_csv())
        names = frame.index.names
        columns[:0] = ["(the index)" if name is None else str(name) for name in names]
    else:
        text = str(frame.to_csv(index=False))

    column_list = ", ".join(columns[:_MAX_COLUMNS])
    if len(columns) > _MAX_COLUMNS:
        column_list += f", and {len(columns) - _MAX_COLUMNS} more"
    about = f"CSV of a DataFrame of {len(frame):,} rows with the columns {column_list}"
    return ContextText(text, about=about)


def _document_text(value: object) -> str:
    """Return the text of an item of a list or dict."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _decode(bytes(value), "").text
    if _is_table(value):
        return _read_table(value).text
    text = _text_of_document(value)
    if text is not None:
        return text
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def _text_of_document(value: object) -> str | None:
    """Return the text of a document of a library; None for other objects."""
    for key in _TEXT_KEYS:
        text = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        if isinstance(text, str):
            return text
    return None


def _join(kind: str, documents: Iterable[tuple[str, str]]) -> ContextText:
    """Join documents, given by name, with a line break between them."""
    texts: list[str] = []
    parts: list[_DocumentSpan] = []
    start = 0
    for name, text in documents:
        parts.append((name, start, start + len(text)))
        texts.append(text)
        start += len(text) + 1
    return ContextText("\n".join(texts), kind, tuple(parts))
