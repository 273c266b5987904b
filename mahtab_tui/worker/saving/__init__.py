"""Keeping the namespace on disk while the session runs, and bringing it back into the kernel of a
resumed session."""
