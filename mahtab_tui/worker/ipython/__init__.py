"""The kernel's side within a Jupyter kernel for Python: beside IPython, which runs the cells."""
