"""From an error to repaired code, by rules."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Sequence

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.demo_reading import Failure, Known
from mahtab_tui.llm.demo_rules import REAL_MODEL, Plan

_BUILTINS = ("print", "len", "range", "sum", "sorted", "list", "dict", "open", "input", "enumerate", "zip", "min", "max", "round", "str", "int")
_MODULES = {"np": "import numpy as np", "pd": "import pandas as pd", "plt": "import matplotlib.pyplot as plt"}
_PLAIN = ("math", "json", "re", "os", "sys", "random", "datetime", "statistics", "itertools", "collections", "pathlib", "time", "csv")


def repair(failure: Failure, variables: Sequence[Known]) -> Plan:
    """What was wrong, and code that mends it. Raises `ModelError` where no rule knows how."""
    repairs = {
        "NameError": _name,
        "ZeroDivisionError": _zero,
        "KeyError": _key,
        "TypeError": _type,
        "IndexError": _index,
        "AttributeError": _attribute,
    }
    found = repairs[failure.kind](failure, variables) if failure.kind in repairs else None
    if found is not None:
        return found
    said = f"{failure.kind}: {failure.message}" if failure.message else failure.kind
    raise ModelError(f"The cell raised {said}{_at(failure)}. No rule of the demo model mends that. {REAL_MODEL}")


def _at(failure: Failure) -> str:
    return f" at `{failure.line}`" if failure.line else ""


def _replaced(failure: Failure, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", lambda matched: new, failure.code)


def _quoted(text: str) -> str:
    matched = re.search(r"'([^']*)'", text)
    return matched[1] if matched else ""


def _name(failure: Failure, variables: Sequence[Known]) -> Plan | None:
    name = _quoted(failure.message)
    if not name:
        return None
    statement = _MODULES.get(name) or (f"import {name}" if name in _PLAIN else "")
    if statement:
        return Plan(f"`{name}` was not imported.", f"{statement}\n{failure.code}")
    known = [v.name for v in variables]
    near = difflib.get_close_matches(name, [*known, *_BUILTINS, *keyword.kwlist], n=1, cutoff=0.6)
    if not near:
        return Plan(f"There is no `{name}` yet: it must be given a value before the line{_at(failure)} runs.")
    return Plan(f"There is no `{name}`; `{near[0]}` is near.", _replaced(failure, name, near[0]))


def _zero(failure: Failure, variables: Sequence[Known]) -> Plan | None:
    matched = re.search(
        r"(?<![\w.\[\]()'\"])([\w.\[\]()'\"]+)\s*(//|/|%)\s*([A-Za-z_][\w.]*(?:\([^()]*\))?|0(?:\.0*)?)", failure.line or failure.code
    )
    if matched is None:
        return Plan(f"Something is divided by zero{_at(failure)}.")
    divisor = matched[3]
    if divisor[0].isdigit():
        return Plan(f"The line divides by {divisor}, which no number allows. Say what it should divide by.")
    guarded = f"({matched[0]} if {divisor} else 0)"
    return Plan(f"`{divisor}` is zero. I take 0 for the result in that case.", failure.code.replace(matched[0], guarded))


def _key(failure: Failure, variables: Sequence[Known]) -> Plan | None:
    key = _quoted(failure.message)
    matched = re.search(rf"(\w+)\[\s*['\"]{re.escape(key)}['\"]\s*\]", failure.code) if key else None
    if matched is None:
        return None
    holder = matched[1]
    code = (
        "import difflib\n"
        f"near = difflib.get_close_matches({key!r}, [str(k) for k in {holder}], n=1, cutoff=0.5)\n"
        f"print('{holder} has:', ', '.join(str(k) for k in list({holder})[:20]))\n"
        f"if near:\n    print('near {key}:', near[0], '->')\n    print({holder}[near[0]])"
    )
    return Plan(f"`{holder}` has no {key!r}. I look for the nearest there is.", code)


def _type(failure: Failure, variables: Sequence[Known]) -> Plan | None:
    line = failure.line or failure.code
    matched = re.search(r"(\"[^\"]*\"|'[^']*'|\b\w+)\s*\+\s*(\w+(?:\([^()]*\))?|\"[^\"]*\"|'[^']*')", line)
    if matched is None or not re.search(r"concatenate str|unsupported operand.*str", failure.message):
        return None
    mended = line.replace(matched[0], f"str({matched[1]}) + str({matched[2]})")
    return Plan("A text and a number cannot be added; I make both texts.", failure.code.replace(line, mended))


def _index(failure: Failure, variables: Sequence[Known]) -> Plan | None:
    matched = re.search(r"\b(\w+)\[(-?\d+)\]", failure.line or failure.code)
    if matched is None:
        return None
    name = matched[1]
    return Plan(f"`{name}` has fewer items than index {matched[2]} needs. I take the last one.", failure.code.replace(matched[0], f"{name}[-1]"))


def _attribute(failure: Failure, variables: Sequence[Known]) -> Plan | None:
    names = re.findall(r"'([^']*)'", failure.message)
    suggested = re.search(r"Did you mean: '(\w+)'", failure.message)
    if len(names) < 2 or suggested is None:
        return None
    return Plan(f"There is no attribute `{names[1]}`; `{suggested[1]}` is near.", _replaced(failure, names[1], suggested[1]))
