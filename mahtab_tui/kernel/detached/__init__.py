"""Kernels of this machine that outlive their screen: where they wait, and how a host attaches to
one."""
