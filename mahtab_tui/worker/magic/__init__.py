"""IPython's syntax, `%magic` commands and `get_ipython()`."""
