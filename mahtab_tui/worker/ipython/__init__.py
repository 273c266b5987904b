"""The kernel's side within a Jupyter kernel for Python, next to IPython, which runs the cells."""
