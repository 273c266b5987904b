"""Values by which objects that never change are compared. Their addresses are not enough, because
another object may have taken the address of one that is gone."""

from __future__ import annotations

import types
from typing import Any, Callable

from ..statics import MISSING, address_of, class_dict, descends, loaded, module_of
from .part import Part, Values


def _match(value: Any) -> Values:
    return [value.re, value.string, *(place for span in value.regs for place in span)]


def _placement(value: Any) -> Values:
    rows = value.indexer
    return [rows.start, rows.stop, rows.step] if type(rows) is slice else [rows.tobytes()]


def _scalar(value: Any) -> Values:
    generic = loaded("numpy", "generic")
    return [generic.tobytes(value), generic.dtype.__get__(value).str]


_READERS: tuple[tuple[str, str, Callable[[Any], Values] | None], ...] = (
    ("pathlib", "PosixPath PurePosixPath PureWindowsPath", lambda value: [str(value)]),
    ("decimal", "Decimal", lambda value: [str(value)]),
    ("fractions", "Fraction", lambda value: [value.numerator, value.denominator]),
    (
        "datetime",
        "datetime date time timedelta timezone",
        lambda value: list(value.__reduce_ex__(4)[1]),
    ),
    ("uuid", "UUID", lambda value: [value.int]),
    ("re", "Pattern", lambda value: [value.pattern, value.flags]),
    ("re", "Match", _match),
    ("builtins", "range", lambda value: [value.start, value.stop, value.step]),
    ("pandas", "Timestamp", lambda value: [value._value, value.unit, value.tzinfo]),
    ("pandas", "Timedelta", lambda value: [value._value, value.unit]),
    ("pandas", "Period", lambda value: [value.ordinal, value.freqstr]),
    ("pandas._libs.internals", "BlockPlacement", _placement),
    ("pandas._libs.internals", "BlockValuesRefs", None),
    ("polars.dataframe.frame", "PyDataFrame", None),
    ("polars.series.series", "PySeries", None),
    ("polars.lazyframe.frame", "PyLazyFrame", None),
    ("polars.expr.expr", "PyExpr", None),
    ("numpy", "ufunc", None),
    (
        "types",
        "WrapperDescriptorType MethodWrapperType MethodDescriptorType ClassMethodDescriptorType GetSetDescriptorType MemberDescriptorType",
        None,
    ),
    ("types", "NotImplementedType GenericAlias UnionType CapsuleType", None),
    ("struct", "Struct", lambda value: [value.format]),
    ("zoneinfo", "ZoneInfo", lambda value: [value.key]),
    ("unicodedata", "UCD", None),
    ("_json", "make_scanner make_encoder", None),
    ("operator", "itemgetter attrgetter methodcaller", lambda value: list(value.__reduce__()[1])),
)
"""Module, classes, and what is read of their objects; None where these never change, or the objects
that hold them tell their changes."""
_NEVER = (types.ModuleType, types.CodeType, types.BuiltinFunctionType, type(NotImplemented))
_HASHES = ("_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2")
_hexdigest = Part(
    "value",
    lambda value: [
        value.name,
        value.copy().hexdigest(1) if value.digest_size == 0 else value.hexdigest(),
    ],
    None,
)
_SCALAR = Part("value", _scalar, None)
_DTYPE = Part("value", lambda value: [str(value)], None)


class FixedKinds:
    """Which classes have objects that never change, as far as their modules are loaded."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Part, ...]] = {}
        for module, names, read in _READERS:
            parts = () if read is None else (Part("value", read, None),)
            self._parts.update((address_of(loaded(module, name)), parts) for name in names.split())
        self._parts.pop(address_of(MISSING), None)

    def parts(self, cls: type) -> tuple[Part, ...] | None:
        """Return what tells an object of such a class from another; None for other classes."""
        if descends(cls, loaded("numpy", "generic")) and not descends(cls, loaded("numpy", "void")):
            return (_SCALAR,)
        if descends(cls, loaded("numpy", "dtype")):
            return (_DTYPE,)
        if (
            module_of(cls) in _HASHES
            and not class_dict(cls).get("__slots__")
            and "hexdigest" in class_dict(cls)
        ):
            return (_hexdigest,)
        if "n_sequence_fields" in class_dict(cls) and descends(cls, tuple):  # os.stat_result
            return (Part("tuple", lambda value: list(tuple.__iter__(value)), None),)
        return (
            () if any(descends(cls, base) for base in _NEVER) else self._parts.get(address_of(cls))
        )
