"""Where the namespace lives and cells run."""
