"""Undo: the namespace, and the objects in it, as they were before a cell."""
