"""Helpers for the operating system and the interpreter: processes, folders, waiting, imports."""
