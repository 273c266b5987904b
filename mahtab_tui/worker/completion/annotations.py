"""The instances that annotations stand for."""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections.abc import Sequence
from typing import Any

from ..values.objects import (
    MISSING,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    is_subclass,
    own_dict,
)
from .annotation_texts import annotations_of, split_generic
from .instances import Instance

_MAX_ANNOTATION_CHARS = 1_000


def result_instance(function: types.FunctionType, receiver: object) -> object:
    """Return an `Instance` for what a function returns according to its annotation.

    Args:
        function: A function in Python, without decorators.
        receiver: The object, or an `Instance` for it, whose method the function is; the class for
            a class method. `MISSING` for a function that is not a method.

    Returns:
        `MISSING` if the annotation says nothing about the type.
    """
    annotations = annotations_of(function)
    annotation = annotations.get("return", MISSING)
    names = function.__globals__
    receiver_variable = MISSING
    if function.__code__.co_argcount:
        first_parameter = function.__code__.co_varnames[0]
        receiver_variable = _receiver_variable(annotations.get(first_parameter, MISSING), names)
    return _AnnotationReader(names, receiver, receiver_variable).read(annotation)


def annotation_instance(code: str) -> object:
    """Return an `Instance` for an annotation that names only builtins and classes of loaded
    modules, such as ``tuple[int]``; `MISSING` if the module is not loaded."""
    return _AnnotationReader({}, MISSING, MISSING).read(code)


class _AnnotationReader:
    """Reads the annotations of one function.

    What it returns is an `Instance`, or `MISSING` if nothing is known about the type.
    """

    def __init__(self, names: dict[str, Any], receiver: Any, receiver_variable: Any) -> None:
        """Store what the annotations refer to.

        Args:
            names: The function's globals.
            receiver: What a method is called on; `MISSING` for other functions. `Self` is its type.
            receiver_variable: The type variable that also stands for the receiver's type; `MISSING`
                without one.
        """
        self._names = names
        self._receiver = receiver
        self._receiver_variable = receiver_variable

    def read(self, annotation: Any) -> Any:
        """Read an annotation: an object, a string of code, or a part of a parsed one."""
        if annotation is MISSING or annotation is None or annotation is type(None):
            return MISSING
        if type(annotation) is str:
            return self._read_tree(_parse(annotation))
        if is_subclass(type(annotation), ast.expr):
            return self._read_tree(annotation)
        if is_class(annotation) and type(annotation) is not types.GenericAlias:
            return Instance(annotation)
        if annotation is get_if_loaded("typing", "Self") or annotation is self._receiver_variable:
            return _receiver_instance(self._receiver)

        origin, arguments = split_generic(annotation)
        if type(annotation) is getattr(types, "UnionType", None):  # since Python 3.10
            return self._read_union(arguments)
        return self._read_generic(origin, arguments)

    def _read_tree(self, node: object) -> object:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._read_union([node.left, node.right])
        if isinstance(node, ast.Subscript):
            arguments = [node.slice]
            if isinstance(node.slice, ast.Tuple):
                arguments = node.slice.elts
            return self._read_generic(_named_object(node.value, self._names), arguments)
        if isinstance(node, ast.Name) and node.id == "Self":
            return _receiver_instance(self._receiver)
        if isinstance(node, ast.Constant):
            if type(node.value) is str:
                return self.read(node.value)
            return MISSING

        value = _named_object(node, self._names)
        # The name of a string is not the annotation that the string contains.
        if type(value) is str:
            return MISSING
        return self.read(value)

    def _read_union(self, members: Sequence[object]) -> object:
        """Return the first member that is known."""
        for member in members:
            instance = self.read(member)
            if instance is not MISSING:
                return instance
        return MISSING

    def _read_generic(self, origin: Any, arguments: Sequence[Any]) -> object:
        """Read ``origin[arguments]``."""
        if origin is MISSING:
            return MISSING
        if any(origin is get_if_loaded("typing", name) for name in ("Union", "Optional")):
            return self._read_union(arguments)
        if is_class(origin):
            return Instance(origin, items=tuple(map(self.read, arguments)))
        return MISSING


def _parse(code: str) -> ast.expr | None:
    """Parse an annotation; return None if it is not an expression."""
    try:
        return ast.parse(code[:_MAX_ANNOTATION_CHARS].strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _receiver_variable(annotation: object, names: dict[str, object]) -> object:
    """Return the type variable that a method uses for its receiver's type: `T` of ``self: T`` and
    of ``cls: type[T]``; `MISSING` without one.

    Args:
        annotation: The annotation of the method's first parameter; `MISSING` without one.
        names: The globals of the method.
    """
    variable = annotation
    if type(annotation) is str:
        node: Any = _parse(annotation)
        if isinstance(node, ast.Subscript) and _is_type(_named_object(node.value, names)):
            node = node.slice
        variable = _named_object(node, names)
    else:
        origin, arguments = split_generic(annotation)
        if _is_type(origin) and len(arguments) == 1:
            variable = arguments[0]
    if variable is not MISSING and type(variable) is get_if_loaded("typing", "TypeVar"):
        return variable
    return MISSING


def _is_type(value: object) -> bool:
    """Return whether a value is `type` or `typing.Type`."""
    return value is type or (value is not MISSING and value is get_if_loaded("typing", "Type"))


def _named_object(node: object, names: dict[str, object]) -> object:
    """Return the object that an annotation names, such as a class; `MISSING` if unknown."""
    if isinstance(node, ast.Attribute):
        name = node.attr
        owner = _named_object(node.value, names)
        if is_module(owner):
            value = own_dict(owner).get(name, MISSING)
        else:
            value = get_if_loaded(ast.unparse(node.value), name)
    elif isinstance(node, ast.Name):
        name = node.id
        if name in names:
            value = names[name]
        else:
            value = builtins.__dict__.get(name, MISSING)
        if value is MISSING:
            value = get_if_loaded("typing", name)
    else:
        return MISSING
    if value is MISSING:
        return _type_checking_class(name, names)
    return value


def _type_checking_class(name: str, names: dict[str, object]) -> object:
    """Find a class that a module imports only for type checkers."""
    module = names.get("__name__")
    package = module.partition(".")[0] if type(module) is str else ""
    if not package or package == "__main__":
        return MISSING
    for path in (package, *list(sys.modules)):
        if path == package or path.startswith(package + "."):
            cls = get_if_loaded(path, name)
            if is_class(cls) and (path == package or class_module(cls) == path):
                return cls
    return MISSING


def _receiver_instance(receiver: Any) -> object:
    """Return an `Instance` of the type of what a method is called on; `MISSING` if unknown."""
    if is_module(receiver):
        return MISSING
    if receiver is MISSING or type(receiver) is Instance:
        return receiver
    return Instance(receiver if is_class(receiver) else type(receiver))
