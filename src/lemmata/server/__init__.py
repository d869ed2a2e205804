"""The faces of a workspace on a network: REST, MCP and the web page."""
