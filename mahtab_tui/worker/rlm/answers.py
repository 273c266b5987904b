"""The answer of a search, and its value in the requested form."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import json
import numbers
import re
import sys
import types
import uuid
import warnings
from collections import abc
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from .logged import Logged, Packed
from .search_log import Span, to_context_spans

if TYPE_CHECKING:
    from .contexts import NamedContext

_UNIONS = (Union, getattr(types, "UnionType", Union))
_LISTS: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
    tuple: tuple,
}
_DICTS = (dict, abc.Mapping, abc.MutableMapping)
_NUMBER = re.compile(
    r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w,])"
)
_EXACT = re.compile(
    r"\b(?:how (?:many|much|often)|count|number of|sum|total|average|mean|median|maximum|minimum|largest|smallest|highest|lowest|longest|shortest"
    r"|earliest|latest|percentage|share of|sort(?:ed)?|duplicates?)\b",
    re.IGNORECASE,
)
"""Words of queries that code answers exactly, and a reading model does not."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_BOOLS = {"true": True, "yes": True, "false": False, "no": False}

_MAX_CORRECTIONS = 2
_MAX_ANSWER_CHARS = 20_000
FORM = "\n\nAnswer with data of this form, in JSON: "
_FORM = f"{{query}}{FORM}{{form}}. FINAL takes the value itself."
_AGAIN = """{query}

An earlier answer was not of that form: {wrong}
If only its form is wrong, give it anew at once. It was:
{answer}"""


class WrongForm(ValueError):
    """The message is a sentence for the model."""


def _reader(kind: type) -> Callable[[Any], object]:
    def read(data: Any) -> Any:
        if not isinstance(data, kind):
            raise TypeError
        return data

    return read


def _read_number(data: object) -> Any:
    if isinstance(data, bool) or not isinstance(data, (int, float, str)):
        raise TypeError
    return data


def _read_int(data: object) -> int:
    if isinstance(data, float) and not data.is_integer():
        raise ValueError
    return int(_read_number(data))


def _read_bool(data: Any) -> bool:
    if isinstance(data, bool):
        return data
    return _BOOLS[data.strip().casefold()]


def _read_date(data: str) -> date:
    moment = _read_datetime(data)
    if moment.time() != time():
        raise ValueError
    return moment.date()


def _read_datetime(data: str) -> datetime:
    return datetime.fromisoformat(re.sub("[zZ]$", "+00:00", data))


def _read_bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    encoded: bytes = data.encode("utf-8", "surrogatepass")
    return encoded


_SIMPLE: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    str: ("a string", _reader(str)),
    int: ("an integer", _read_int),
    float: ("a number", lambda data: float(_read_number(data))),
    Decimal: ("a number", lambda data: Decimal(str(_read_number(data)).strip())),
    bool: ("true or false", _read_bool),
    bytes: ("a string", _read_bytes),
    type(None): ("null", _reader(type(None))),
    Any: ("any JSON", lambda data: data),
    object: ("any JSON", lambda data: data),
    date: ("a date such as 2026-03-01", _read_date),
    datetime: ("a time such as 2026-03-01T12:00:00", _read_datetime),
    time: ("a time such as 12:00:00", time.fromisoformat),
    uuid.UUID: ("a UUID", uuid.UUID),
    Path: ("a path", Path),
}
"""Types without parts: description and reader."""


def describe_form(form: Any, within: tuple[object, ...] = ()) -> str:
    """Describe a type for a model. within: the enclosing classes. Raises `TypeError`."""
    form = _strip_annotations(form)
    origin = get_origin(form) or form
    inner = get_args(form)
    if not isinstance(origin, Hashable):  # for example [int] instead of list[int]
        raise _unsupported_form(form)
    if simple := _simple(form):
        return simple[0]
    if form in within:
        return f"another {form.__name__}"
    if origin in _UNIONS:
        return " or ".join(describe_form(inner_form, within) for inner_form in inner)
    if choices := _choices(form):
        return " or ".join(json.dumps(value, default=str) for value, *_ in choices.values())
    if origin is tuple and inner and inner[-1] is not ...:
        return f"[{', '.join(describe_form(inner_form, within) for inner_form in inner)}]"
    if origin in _LISTS:
        return f"[{describe_form(inner[0], within) if inner else 'any JSON'}, ...]"
    if origin in _DICTS:
        key, kind = inner or (str, Any)
        return f"{{{describe_form(key, within)}: {describe_form(kind, within)}, ...}}"
    if hasattr(form, "model_validate"):
        return f"an object by this JSON schema: {json.dumps(form.model_json_schema())}"
    names = [
        f"{json.dumps(name)}: {describe_form(kind, (*within, form))}{'' if must else ' (or left out)'}"
        for name, kind, must in _fields(form)
    ]
    return f"{{{', '.join(names)}}}"


def _choices(form: object) -> dict[Any, list[Any]]:
    if get_origin(form) is Literal:
        choices = get_args(form)
        return {
            choice: [choice.value if isinstance(choice, enum.Enum) else choice]
            for choice in choices
        }
    if isinstance(form, type) and issubclass(form, enum.Enum):
        return {choice: [choice.value, choice.name] for choice in form}
    return {}


def read_as(form: object, text: str, *, raw: bool = False) -> object:
    """Read an answer. raw: keep control characters in strings. Raises `WrongForm`."""
    if form is str:
        return str(text)
    wrong: WrongForm | None = None
    for data in _parse(str(text)):
        try:
            return _read(form, data if raw else _clean(data), "the answer")
        except WrongForm as error:
            wrong = wrong or error
    assert wrong is not None
    if (value := _only_value(form, str(text))) is not None:
        with contextlib.suppress(WrongForm):
            return _read(form, value, "the answer")
    raise wrong


def _only_value(form: object, text: str) -> str | None:
    """Return the only number of a text, or the only choice in it; None if there is not one."""
    candidates: set[str]
    bare = _strip_annotations(form)
    if bare in (int, float):
        candidates = {number.replace(",", "") for number in _NUMBER.findall(text)}
    else:
        names = {str(value) for value, *_ in _choices(bare).values()}
        words = {name: rf"(?<!\w){re.escape(name)}(?!\w)" for name in names}
        candidates = {name for name in names if re.search(words[name], text, re.IGNORECASE)}
    if len(candidates) == 1:
        return candidates.pop()
    return None


def _parse(text: str) -> Iterator[object]:
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare.partition("\n")[2][:-3]
    for parse in (json.loads, ast.literal_eval):
        try:
            yield parse(bare)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    yield text.strip()


def _clean(data: object) -> object:
    if isinstance(data, str):
        return _CONTROLS.sub("", data)
    if isinstance(data, (list, tuple, set, frozenset)):
        return type(data)(map(_clean, data))
    if isinstance(data, dict):
        return {_clean(name): _clean(value) for name, value in data.items()}
    return data


def _read(form: Any, data: Any, path: str) -> object:
    try:
        return _convert(form, data, path)
    except WrongForm:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        try:
            written = json.dumps(data, default=repr)
        except (TypeError, ValueError, RecursionError):  # for example other keys than strings
            written = repr(data)
        if len(written) > 100:
            written = f"{written[:100]}…"
        raise WrongForm(f"{path} must be {describe_form(form)}, not {written}") from None


def _convert(form: object, data: Any, path: str) -> Any:
    """Convert an answer, or raise an exception if it does not have the form."""
    bare = _strip_annotations(form)
    if bare is not form:
        value = _read(bare, data, path)
        # Constraints need pydantic to be declared.
        if get_origin(form) is Annotated and "pydantic" in sys.modules:
            with _user_code(path):
                return sys.modules["pydantic"].TypeAdapter(form).validate_python(value)
        return value
    origin = get_origin(form) or form
    inner = get_args(form)
    if simple := _simple(form):
        return simple[1](data)
    if origin in _UNIONS:
        # As in pydantic, "7" is a str for `int | str`.
        for inner_form in sorted(
            inner, key=lambda inner_form: type(data) is not _strip_annotations(inner_form)
        ):
            with contextlib.suppress(WrongForm):
                return _read(inner_form, data, path)
        raise ValueError
    if choices := _choices(form):
        return _choose(choices, data)
    if origin in _LISTS:
        if not isinstance(data, (list, tuple, set, frozenset)):
            raise TypeError
        fixed = origin is tuple and inner and inner[-1] is not ...
        kinds: Sequence[object] = inner if fixed else [inner[0] if inner else Any] * len(data)
        if len(data) != len(kinds):
            raise ValueError
        items = enumerate(zip(kinds, data))
        return _LISTS[origin](
            _read(kind, inner_form, f"{path}[{at}]") for at, (kind, inner_form) in items
        )
    if origin in _DICTS:
        key, kind = inner or (Any, Any)
        return {
            _read(key, name, f"{path}, a key"): _read(kind, inner_form, f"{path}[{name!r}]")
            for name, inner_form in data.items()
        }
    return _read_object(form, data, path)


def _choose(choices: dict[Any, list[Any]], data: object) -> object:
    for choice, names in choices.items():
        if any(type(name) is type(data) and name == data for name in names):
            return choice
    meant = str(data).strip(" \n.'\"`").casefold()
    (matching_choice,) = (
        candidate
        for candidate in choices
        if meant in {str(x).casefold() for x in choices[candidate]}
    )
    return matching_choice


def _read_object(form: Any, data: object, path: str) -> object:
    if hasattr(form, "model_validate"):
        with _user_code(path):
            return form.model_validate(data)
    fields = _fields(form)
    if isinstance(data, (list, tuple)) and hasattr(form, "_fields") and len(data) <= len(fields):
        data = {name: item for (name, _, _), item in zip(fields, data)}
    if not isinstance(data, dict):
        raise TypeError
    problems = [f"{name!r} is missing" for name, _, must in fields if must and name not in data]
    unknown = sorted(str(name) for name in data.keys() - {name for name, _, _ in fields})
    problems += [f"there is no {name!r}" for name in unknown]
    if problems:
        raise WrongForm(f"{path}: {'; '.join(problems)}")
    present_fields = [(name, kind) for name, kind, _ in fields if name in data]
    values = {name: _read(kind, data[name], f"{path}.{name}") for name, kind in present_fields}
    with _user_code(path):
        return form(**values)


@contextlib.contextmanager
def _user_code(path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise WrongForm(f"{path}: {error}") from None


def _fields(form: object) -> list[tuple[str, Any, bool]]:
    if not isinstance(form, type):
        raise _unsupported_form(form)
    try:
        kinds = get_type_hints(form, include_extras=True)
    except NameError:  # a name in a function that has ended
        raise _unsupported_form(form) from None
    if dataclasses.is_dataclass(form):
        without = dataclasses.MISSING
        must = {
            field.name: field.default is without and field.default_factory is without
            for field in dataclasses.fields(form)
            if field.init
        }
    elif issubclass(form, tuple) and hasattr(form, "_field_defaults"):
        must = {name: name not in form._field_defaults for name in kinds}
    elif issubclass(form, dict) and hasattr(form, "__required_keys__"):
        # `__required_keys__` does not understand string annotations.
        marks = {name: getattr(get_origin(kind), "_name", "") for name, kind in kinds.items()}
        must = {
            name: marks[name] == "Required"
            or (marks[name] != "NotRequired" and name in form.__required_keys__)
            for name in kinds
        }
    else:
        raise _unsupported_form(form)
    return [(name, kinds.get(name, Any), needed) for name, needed in must.items()]


def _strip_annotations(form: object) -> object:
    if form is None:
        return type(None)
    origin = get_origin(form)
    if origin is Annotated or getattr(origin, "_name", "") in ("Required", "NotRequired"):
        return _strip_annotations(get_args(form)[0])
    for name in ("__supertype__", "__value__"):
        if not isinstance(form, type) and hasattr(form, name):
            return _strip_annotations(getattr(form, name))
    return form


def _simple(form: object) -> tuple[str, Callable[[Any], object]] | None:
    if description := _SIMPLE.get(form):
        return description
    if isinstance(form, type) and form.__module__ == "numpy":
        scalar: Any = form
        if issubclass(form, numbers.Integral):
            return _SIMPLE[int][0], lambda data: scalar(_read_int(data))
        if issubclass(form, numbers.Real):
            return _SIMPLE[float][0], lambda data: scalar(_read_number(data))
    return None


def _unsupported_form(form: object) -> TypeError:
    return TypeError(
        f"returns: {form!r} cannot describe an answer. Give int, list[str], a dataclass, a pydantic model or the like."
    )


class SearchUsage(NamedTuple):
    calls: int
    tokens: int
    usd: float
    seconds: float


class Result(NamedTuple):
    text: str
    partial: bool
    why: str
    usage: SearchUsage
    spans: tuple[tuple[int, int], ...]
    packed: Packed = b""


class Answer(Logged, str):
    """The answer of a search: a str that also has a value. `log` contains the events of its search,
    `tree` the calls."""

    value: Any
    """The answer in the form requested by `returns`; by default the text. None if it does not have
    that form; then `why` says so."""
    state: str
    """Either "answered", or "partial" for the best answer there was."""
    why: str
    """Why it is partial; else how the text was searched: read at once, or by code."""
    usage: SearchUsage
    spans: tuple[Span, ...]
    """The parts of the text that support the answer; `context` names the text of each."""

    def _repr_markdown_(self) -> str:
        return str(self)


def needs_code(query: str, returns: object, tools: Sequence[object]) -> bool:
    """Tell whether a search should run code though a model could read its text at once."""
    bare = _strip_annotations(returns)
    kind = get_origin(bare) or bare
    container = isinstance(kind, Hashable) and (kind in _LISTS or kind in _DICTS)
    return bool(tools) or container or _EXACT.search(query) is not None


def search_for_form(
    query: str,
    returns: object,
    search: Callable[[str], Result],
    failures: tuple[type[Exception], ...],
    *,
    raw: bool = False,
    contexts: Sequence[NamedContext] = (),
) -> Answer:
    """Search until the answer has the requested form, at most three times. failures: exceptions
    of later searches, which keep the earlier answer. Raises `TypeError` for an unsupported form."""
    if returns is None or returns is str:
        result = search(query)
        return _make_answer(result, result.text, "", contexts)
    query = _FORM.format(query=query, form=describe_form(returns))
    result = search(query)
    wrong = ""
    for tries in range(_MAX_CORRECTIONS + 1):
        try:
            return _make_answer(result, read_as(returns, result.text, raw=raw), "", contexts)
        except WrongForm as error:
            wrong = str(error)
        if result.partial or tries == _MAX_CORRECTIONS:
            break
        try:
            result = search(
                _AGAIN.format(query=query, wrong=wrong, answer=result.text[:_MAX_ANSWER_CHARS])
            )
        except failures as error:
            wrong = f"{wrong} ({error})"
            break
    reason = f"The answer does not have the requested form: {wrong}"
    warnings.warn(reason, stacklevel=3)
    return _make_answer(result, None, reason, contexts)


def _make_answer(
    result: Result, value: object, wrong: str, contexts: Sequence[NamedContext]
) -> Answer:
    answer = Answer(result.text)
    answer.value = value
    answer.why = wrong or result.why
    answer.state = "partial" if wrong or result.partial else "answered"
    answer.usage = result.usage
    answer.spans = to_context_spans(result.spans, contexts)
    answer._packed = result.packed
    answer._contexts = tuple(contexts)
    return answer
