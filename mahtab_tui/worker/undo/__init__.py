"""Undo: the namespace, and the objects in it, as they were before a cell. The same comparison tells
what a cell changed inside objects (`mutations.py`)."""
