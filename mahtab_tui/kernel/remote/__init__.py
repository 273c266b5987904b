"""Kernels that run elsewhere: over ssh, or over any command that has a stdin and a stdout."""
