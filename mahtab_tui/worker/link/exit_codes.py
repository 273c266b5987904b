"""Exit codes by which a kernel's process says why it has ended."""

EXIT_CONNECTION_LOST = 87
"""The kernel has lost its connection to the host."""
EXIT_NOT_LOADED = 88
"""The kernel's own modules cannot be loaded, so that another kernel would end in the same way."""
