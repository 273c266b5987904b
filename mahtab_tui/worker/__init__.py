"""The kernel's side: runs in any CPython from 3.9 on, with only the standard library.

The host starts it as a package under a name of its own (`local_process.BOOTSTRAP`), so imports in
it are relative and never refer to the rest of the program. This file is not run there.
"""

from .former_names import install_finder

install_finder()
