"""Reads the calls in code: which functions it calls by which names, and with which arguments."""

from __future__ import annotations

import ast

from mahtab_tui.bus.magic_code import MAX_CODE_CHARS, read_code
from mahtab_tui.settings.approval_rules import UNKNOWN, Call, open_call
from mahtab_tui.worker.magic.syntax import parse_python

MAX_NAME_PARTS = 100
"""Only the last parts of a longer dotted name are read, so that long chains take linear time."""
_BUILTIN_MODULES = frozenset(("builtins", "__builtins__"))
_OPEN_NAMES = frozenset(("open", "io.open", "builtins.open"))
"""Names of the function whose rules are about files and modes."""


def find_calls(code: str) -> list[Call]:
    """Return the calls in code and in its magic commands, and the names that it mentions, by full
    names without aliases. Code may call what it mentions by another name, so such a name becomes a
    call with any arguments."""
    trees = [part.tree for part in read_code(code) if part.tree is not None]
    full_names: dict[str, str] = {}
    for tree in trees:
        full_names |= _imported_names(tree)

    nodes = [node for tree in trees for node in ast.walk(tree)]
    call_nodes = [node for node in nodes if isinstance(node, ast.Call)]
    calls = [_read_call(node, full_names) for node in call_nodes]

    # The name of a function that is called has its call already.
    function_ids = {id(node.func) for node in call_nodes}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in function_ids:
            name = _dotted_name(node, full_names)
            calls.append(Call(name, starred=True))
    return calls


def unread_part(code: str) -> str:
    """Return why `find_calls` does not see all that code may call, as a clause.

    Empty if it does, as far as the code's text shows it.
    """
    return next((part.unread for part in read_code(code) if part.unread), "")


def parse_single_call(code: str) -> Call | None:
    """Return the call that the code consists of.

    Returns:
        None if the code is more than one call, if an argument is not a plain constant, or if the
        function has no name of its own.
    """
    if len(code) > MAX_CODE_CHARS:
        return None
    match parse_python(code):
        case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute()) as node)]):
            if _first_name(node.func) in _BUILTIN_MODULES:
                return None  # code may give this name to another module
            call = _read_call(node, {})
            if call.starred or call.name.startswith("?"):
                return None
            values = (*call.arguments, *call.keywords.values())
            if not all(isinstance(value, str | int | float | None) for value in values):
                return None
            return call
    return None


def exact_rule(call: Call) -> str:
    """Return the rule that allows exactly this call.

    Raises:
        ValueError: An argument is a number of more digits than Python writes.
    """
    arguments = [_literal(value) for value in call.arguments]
    arguments += [f"{name}={_literal(value)}" for name, value in call.keywords.items()]
    return f"allow: {call.name}({', '.join(arguments)})"


def _imported_names(tree: ast.AST) -> dict[str, str]:
    """Return the full name of each alias that code imports."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names.update({alias.asname: alias.name for alias in aliases if alias.asname})
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name] = f"{module}.{alias.name}"
    return names


def _first_name(node: ast.expr) -> str:
    """Return the first part of a dotted name; empty if it has none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dotted_name(node: ast.AST, full_names: dict[str, str]) -> str:
    """Return the full name of a name or an attribute.

    Args:
        node: Any expression.
        full_names: Full names by alias.

    Returns:
        For an attribute of something without a name, or of a very long name, ``?.read``; empty for
        an expression that is neither a name nor an attribute.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < MAX_NAME_PARTS:
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(full_names.get(node.id, node.id))
    elif parts:
        parts.append("?")
    dotted_name = ".".join(reversed(parts))
    # A builtin has the same name with and without its module.
    return dotted_name.removeprefix("builtins.").removeprefix("__builtins__.")


def _read_call(node: ast.Call, full_names: dict[str, str]) -> Call:
    """Return a call in code.

    Args:
        node: The call.
        full_names: Full names by alias.
    """
    name = _dotted_name(node.func, full_names) or "?"
    is_starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    is_starred |= any(keyword.arg is None for keyword in node.keywords)
    arguments = tuple(map(_read_value, node.args))
    keywords = {
        keyword.arg: _read_value(keyword.value)
        for keyword in node.keywords
        if keyword.arg is not None
    }

    # Rules about `open` know its path and its mode, wherever a call gives them.
    if name in _OPEN_NAMES and not is_starred and (arguments or "file" in keywords):
        path = arguments[0] if arguments else keywords.pop("file")
        mode = arguments[1] if len(arguments) > 1 else keywords.pop("mode", "r")
        return open_call(path, mode, keywords)
    return Call(name, arguments, keywords, is_starred)


def _read_value(node: ast.expr) -> object:
    """Return the value of an argument if the code shows it; else `UNKNOWN`."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_read_value(element) for element in elements]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return UNKNOWN


def _literal(value: object) -> str:
    """Write a value as in a rule. A string becomes a quoted glob that matches only this string."""
    if not isinstance(value, str):
        return repr(value)
    quoted_text = "".join(map(_quote_character, value))
    return f'"{quoted_text}"'


def _quote_character(character: str) -> str:
    """Return a character as a glob within quotes has it, where it stands for itself."""
    if character in "*?[":
        return f"[{character}]"
    if character in '\\"':
        return f"\\{character}"
    if not character.isprintable():
        return character.encode("unicode_escape").decode("ascii")
    return character
