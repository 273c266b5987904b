"""Kernels: where the namespace lives and cells run."""
