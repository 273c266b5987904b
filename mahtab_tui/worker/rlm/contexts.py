"""Converts a context, or several named ones, to one text for a search."""

from __future__ import annotations

import codecs
import difflib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..sandbox.names import name_problem

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAMPLE_BYTES = 8_192
_MAX_FILES = 10_000
_MAX_NOTICES = 10
_MAX_NAME_CHARS = 1_000
_MAX_COLUMNS = 100
_FOREIGN_OPTIONS = frozenset(
    "api_key base_url api_base api_version azure_endpoint organization project backend backend_kwargs environment environment_kwargs headers"
    " extra_headers extra_body default_headers custom_system_prompt system_prompt system prompt messages question task signature"
    " stop logger callbacks lm sub_lm llm client provider root_model recursive_model recursive_prompt orchestrator user"
    " response_format output_type schema reasoning_effort thinking interpreter".split()
)
"""Options of other programs, so hardly the name of a context."""
_SECRET_NAMES = frozenset(
    "key apikey token secret password passwd credential credentials auth authorization".split()
)
_SECRET = re.compile(
    r"(?:(?:sk|pk|rk)[-_][\w-]{10,}|gh[a-z]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|hf_\w{20,}|xox[a-z]-[\w-]{10,}|AKIA[A-Z0-9]{12,}"
    r"|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|Bearer\s+\S{10,})\s*"
)
_MAX_SECRET_CHARS = 500
_KEYS = ("page_content", "text", "content")


class ContextError(Exception):
    """The message is a sentence that says why it cannot be searched."""


class NamedContext(NamedTuple):
    name: str
    kind: str
    start: int
    end: int
    parts: tuple[tuple[str, int, int], ...] = ()
    about: str = ""


class ContextText(NamedTuple):
    text: str
    kind: str = "str"
    parts: tuple[tuple[str, int, int], ...] = ()
    about: str = ""
    notices: tuple[str, ...] = ()
    contexts: tuple[NamedContext, ...] = ()


def read_context(source: object) -> ContextText:
    """Read a context of any kind. Raises `ContextError`."""
    notices: list[str] = []
    if isinstance(source, str):
        text = str(source)
        is_name = len(text) <= _MAX_NAME_CHARS and text.strip() and text.isprintable()
        if is_name and os.path.exists(text):
            notices.append(
                f"The string {text!r} itself is searched; to search the file of that name, pass pathlib.Path({text!r})."
            )
        return ContextText(text, notices=tuple(notices))
    if isinstance(source, (bytes, bytearray, memoryview)):
        text = _decode(bytes(source), "The bytes", notices)
        return ContextText(text, notices=tuple(notices))
    if isinstance(source, os.PathLike):
        return _read_path(Path(source))
    if _is_table(source):
        return _read_table(source)
    # A Series, whose labels would be lost in a list.
    if hasattr(source, "to_frame") and _is_labelled(getattr(source, "index", None)):
        return _read_table(source.to_frame())
    if isinstance(source, Mapping):
        return _join("dict", ((str(key), _document(value)) for key, value in source.items()))
    if hasattr(source, "read"):
        return read_context(source.read())
    if (library_text := _known_text(source)) is not None:
        return ContextText(library_text)
    if hasattr(source, "__iter__"):
        return _join("list", ((str(number), _document(item)) for number, item in enumerate(source)))
    raise ContextError(
        f"A value of type {type(source).__name__} cannot be searched. A context is a str, bytes, a path object, a list of strings or documents, a dict, or a DataFrame."
    )


def read_contexts(
    context: object,
    contexts: Mapping[str, object] | None,
    keywords: Mapping[str, object],
    options: Iterable[str],
) -> ContextText:
    """Read one context, or several by name. keywords: contexts passed like options. options:
    known names, one of which may be misspelt. Raises `ContextError`."""
    for name, value in keywords.items():
        if problem := _rejection(name, value, options):
            raise ContextError(problem)
    named = {**(contexts or {}), **keywords}
    if not named:
        if context is None:
            raise ContextError("There is nothing to search: give a text, or several by name.")
        return read_context(context)
    if context is not None:
        raise ContextError(
            f"Give one context, or all of them by name: the first one has no name, unlike {', '.join(named)}."
        )
    read: dict[str, ContextText] = {}
    for name, value in named.items():
        if problem := name_problem(name):
            raise ContextError(f"A context cannot be named {name!r}: {problem}.")
        try:
            read[name] = read_context(value)
        except ContextError as error:
            raise ContextError(f"The context {name!r}: {error}") from None
    joined = _join("dict", ((name, context_text.text) for name, context_text in read.items()))
    named_contexts = []
    for (name, start, end), context_text in zip(joined.parts, read.values()):
        parts = tuple((part, low + start, high + start) for part, low, high in context_text.parts)
        named_contexts.append(
            NamedContext(name, context_text.kind, start, end, parts, context_text.about)
        )
    notices = tuple(notice for context_text in read.values() for notice in context_text.notices)
    return joined._replace(notices=notices, contexts=tuple(named_contexts))


def _rejection(name: str, value: object, options: Iterable[str]) -> str:
    otherwise = f"If it is a text for the model, pass contexts={{{name!r}: …}}."
    if close := difflib.get_close_matches(name, options, 1, 0.75):
        return f"There is no option {name!r}; did you mean {close[0]!r}? {otherwise}"
    if name in _FOREIGN_OPTIONS:
        return f"There is no option {name!r}. {otherwise}"
    if isinstance(value, (str, bytes)) and len(value) <= _MAX_SECRET_CHARS:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if _SECRET_NAMES & set(name.lower().split("_")):
            return f"{name} looks like a secret and is sent to no model. {otherwise}"
        if _SECRET.fullmatch(text.strip()):
            return f"The value of {name} looks like a secret and is sent to no model. {otherwise}"
    if value is None or isinstance(value, (bool, int, float, complex)):
        return f"There is no option {name!r}, and a value of type {type(value).__name__} is no text to search."
    return ""


def _decode(data: bytes, source_name: str, notices: list[str]) -> str:
    """Decode as UTF-16, UTF-8, Windows-1252 or Latin-1, as `search_code` does."""
    if data.startswith(_UTF_16):
        return data.decode("utf-16", "replace")
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8-sig")
    text = data.decode("latin-1")
    name = "Latin-1"
    if any(0x80 <= byte < 0xA0 for byte in set(data)):
        with suppress(UnicodeDecodeError):
            text = data.decode("cp1252")
            name = "Windows-1252"
    notices.append(f"{source_name} are not valid UTF-8, and were read as {name}.")
    return text


def _read_path(path: Path) -> ContextText:
    notices: list[str] = []
    try:
        if path.is_dir():
            return _read_folder(path)
        text = _decode(_read_file(path), f"The bytes of {path}", notices)
    except OSError as error:
        raise ContextError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # an invalid file name
        raise ContextError(f"{str(path)!r} cannot be read: {error}.") from None
    return ContextText(text, about=f"the file {path.name}", notices=tuple(notices))


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
    os.scandir(path).close()  # of its own folder, an error is reported
    omitted = count = 0
    notices: list[str] = []
    texts = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in (Path(folder, name) for name in sorted(names) if not name.startswith(".")):
            count += 1
            if count > _MAX_FILES:
                raise ContextError(
                    f"There are more than {_MAX_FILES:,} files in {path}. Pass a subfolder, or a list of texts."
                )
            try:
                data = _read_file(file)
            except (OSError, ContextError):
                omitted += 1
                continue
            if b"\0" in data[:_SAMPLE_BYTES] and not data.startswith(_UTF_16):
                omitted += 1
            else:
                text = _decode(data, f"The bytes of {file}", notices)
                texts.append((str(file.relative_to(path)), text))
    if not texts:
        raise ContextError(f"There are no text files in {path}.")
    notices[_MAX_NOTICES:] = []
    if omitted:
        notices.append(
            f"Files in {path} that are not text, or cannot be read, were left out: {omitted:,}."
        )
    return _join("dict", iter(texts))._replace(notices=tuple(notices))


def _is_table(value: object) -> bool:
    return hasattr(value, "columns") and (hasattr(value, "to_csv") or hasattr(value, "write_csv"))


def _is_labelled(index: Any) -> bool:
    """Return whether the index is more than row numbers from 0."""
    if type(index).__name__ != "RangeIndex":
        return hasattr(index, "names")
    return (index.start, index.step, index.name) != (0, 1, None)


def _read_table(frame: Any) -> ContextText:
    columns = [str(column) for column in frame.columns]
    if not hasattr(frame, "to_csv"):
        text = str(frame.write_csv())
    elif _is_labelled(getattr(frame, "index", None)):
        text = str(frame.to_csv())
        names = frame.index.names
        columns[:0] = ["(the index)" if name is None else str(name) for name in names]
    else:
        text = str(frame.to_csv(index=False))
    named = ", ".join(columns[:_MAX_COLUMNS])
    if len(columns) > _MAX_COLUMNS:
        named += f", and {len(columns) - _MAX_COLUMNS} more"
    about = f"CSV of a DataFrame of {len(frame):,} rows with the columns {named}"
    return ContextText(text, about=about)


def _document(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _decode(bytes(value), "", [])
    if _is_table(value):
        return _read_table(value).text
    if (text := _known_text(value)) is not None:
        return text
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def _known_text(value: object) -> str | None:
    for key in _KEYS:
        if isinstance(value, Mapping):
            text = value.get(key)
        else:
            text = getattr(value, key, None)
        if isinstance(text, str):
            return text
    return None


def _join(kind: str, documents: Iterator[tuple[str, str]]) -> ContextText:
    texts: list[str] = []
    parts = []
    start = 0
    for name, text in documents:
        parts.append((name, start, start + len(text)))
        texts.append(text)
        start += len(text) + 1
    return ContextText("\n".join(texts), kind, tuple(parts))
