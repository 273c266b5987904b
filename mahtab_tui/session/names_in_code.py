"""Follows names in code to what they were imported from: ``o.remove`` after ``import os as o`` is ``os.remove``."""

from __future__ import annotations

import ast


class Names:
    """The names that code gives to modules and functions, by plain imports and assignments."""

    def __init__(self, tree: ast.AST) -> None:
        self._meanings: dict[str, str] = {}
        self.imported: set[str] = set()
        """The names that are modules, or come from one."""
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        name = alias.asname or alias.name.partition(".")[0]
                        self._meanings[name] = alias.name if alias.asname else name
                        self.imported.add(name)
                case ast.ImportFrom(module=str(module), names=names):
                    for alias in names:
                        self._meanings[alias.asname or alias.name] = f"{module}.{alias.name}"
                        self.imported.add(alias.asname or alias.name)
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute() as value) if name not in self._meanings:
                    if (dotted := self.dotted(value)) and not dotted.startswith("?"):
                        self._meanings[name] = dotted

    def dotted(self, node: ast.AST) -> str:
        """Return the full name of a name or an attribute, ``?.read`` for one of something without a name; empty for anything else."""
        parts: list[str] = []
        while True:
            match node:
                case ast.Attribute(value=value, attr=attr):
                    parts.append(attr)
                    node = value
                case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attr)), *_]):
                    parts.append(attr)
                    node = value
                case ast.Name(id=name):
                    parts.append(self._meanings.get(name, name))
                    break
                case _:
                    if not parts:
                        return ""
                    parts.append("?")
                    break
        name = ".".join(reversed(parts))
        return name.removeprefix("builtins.").removeprefix("__builtins__.")
