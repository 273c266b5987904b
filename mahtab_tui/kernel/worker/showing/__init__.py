"""Rich display of values: pictures, tables, Markdown."""
