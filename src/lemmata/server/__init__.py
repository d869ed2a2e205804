"""The faces of a workspace over HTTP and MCP: REST, the web page, and tools for agents."""
