"""User-facing tools built on archir: language server, studio, notebook support, MCP server. Only archir.cli imports
them."""
