"""A person and a language model at work in one live Python namespace."""

__version__ = "0.1.0"
