"""The kernel's side: runs in any CPython since 3.9 with only the standard library.

The host starts it as a package with its own name (`launch.BOOTSTRAP`), so imports in here are
relative and never refer to the rest of the program.
"""
