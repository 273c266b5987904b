"""Values that are more than text: pictures, tables, Markdown."""
