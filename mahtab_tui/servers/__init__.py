"""MCP servers whose tools cells can call: connections, schemas of arguments, results."""
