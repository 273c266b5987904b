"""Exit codes by which a kernel's process says why it has ended."""

EXIT_CONNECTION_LOST = 87
"""The kernel has lost its connection to the host."""
