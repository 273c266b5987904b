"""Undo: restores the namespace, and the objects in it, to the state before a cell. The same
comparison finds what a cell changed inside objects (`mutations.py`)."""
