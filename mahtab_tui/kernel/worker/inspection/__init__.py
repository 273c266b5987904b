"""A look inside any object, a page at a time; loaded when it is first asked for. No code of the person's objects runs unasked."""
