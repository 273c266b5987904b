"""Kernels on other machines: over ssh, or over any command with a stdin and a stdout."""
