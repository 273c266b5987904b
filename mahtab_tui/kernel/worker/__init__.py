"""The kernel side: runs in any CPython from 3.9 on, with nothing but the standard library.

The host starts it as a package of its own name (`launch.BOOTSTRAP`), so imports in here are relative and never name the
rest of the program.
"""
