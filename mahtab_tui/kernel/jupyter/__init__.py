"""Jupyter kernels: on this machine, on a server, or started by another program."""
