"""Kernels of Jupyter: local ones, those of a server, and those that another program has started."""
