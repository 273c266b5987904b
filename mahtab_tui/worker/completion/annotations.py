"""The instances that annotations stand for."""

from __future__ import annotations

import ast
import builtins
import sys
import types
from typing import Any, NamedTuple

from ..values.objects import (
    MISSING,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    is_subclass,
    own_dict,
)
from .instances import Instance
from .signatures import split_generic

_MAX_ANNOTATION_CHARS = 1_000


def annotation_instance(annotation: Any, names: dict[str, Any], receiver: Any) -> Any:
    """Return an `Instance` for an annotation; `MISSING` if unknown.

    Args:
        annotation: An object, a string of code, or a part of a parsed one.
        names: The globals of its function.
        receiver: As for `call_result`; `Self` is its type.
    """
    return _AnnotationReader(names, receiver).read(annotation)


class _AnnotationReader(NamedTuple):
    """Reads the annotations of one function."""

    names: dict[str, Any]
    receiver: Any

    def read(self, annotation: Any) -> Any:
        """Return an `Instance` for an annotation or a part of one; `MISSING` if unknown."""
        if annotation is type(None):
            return MISSING
        if type(annotation) is str:
            return self._read_code(annotation)
        if is_subclass(type(annotation), ast.expr):
            return self._read_tree(annotation)
        if is_class(annotation) and type(annotation) is not types.GenericAlias:
            return Instance(annotation)
        if _is_self_or_variable(annotation):
            return _receiver_instance(self.receiver)
        origin, arguments = split_generic(annotation)
        return _generic_instance(origin, list(map(self.read, arguments)))

    def _read_code(self, code: str) -> Any:
        try:
            tree = ast.parse(code[:_MAX_ANNOTATION_CHARS].strip(), mode="eval")
            return self.read(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return MISSING

    def _read_tree(self, node: Any) -> Any:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return _generic_instance(MISSING, [self.read(node.left), self.read(node.right)])
        if isinstance(node, ast.Subscript):
            items = [node.slice]
            if isinstance(node.slice, ast.Tuple):
                items = node.slice.elts
            origin = _named_object(node.value, self.names)
            return _generic_instance(origin, list(map(self.read, items)))
        if isinstance(node, ast.Name) and node.id == "Self":
            return _receiver_instance(self.receiver)
        if isinstance(node, ast.Constant):
            if type(node.value) is str:
                return self.read(node.value)
            return MISSING

        value = _named_object(node, self.names)
        # The name of a string is not the annotation that the string contains.
        if type(value) is str:
            return MISSING
        return self.read(value)


def _is_self_or_variable(annotation: Any) -> bool:
    """Return whether an annotation is `Self` or a type variable."""
    if annotation is MISSING:
        return False
    is_variable = type(annotation) is get_if_loaded("typing", "TypeVar")
    return is_variable or get_if_loaded("typing", "Self") is annotation


def _generic_instance(origin: Any, items: list[Any]) -> Any:
    """Return an `Instance` for ``origin[items]``; of a union, the first type that is known."""
    unions = (MISSING, get_if_loaded("typing", "Union"), get_if_loaded("typing", "Optional"))
    if any(origin is union for union in unions):
        return next((item for item in items if item is not MISSING), MISSING)
    if is_class(origin):
        return Instance(origin, items=tuple(items))
    return MISSING


def _named_object(node: Any, names: dict[str, Any]) -> Any:
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


def _type_checking_class(name: str, names: dict[str, Any]) -> Any:
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


def _receiver_instance(receiver: Any) -> Any:
    """Return an `Instance` of the receiver's type, as for `Self`; `MISSING` if unknown."""
    if is_module(receiver):
        return MISSING
    if receiver is MISSING or type(receiver) is Instance:
        return receiver
    return Instance(receiver if is_class(receiver) else type(receiver))
