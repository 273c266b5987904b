"""Jupyter kernels on this machine: by name, or started by another program."""
