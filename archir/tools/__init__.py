"""User-facing tools built on archir: language server, studio, notebook support, MCP server.

Within archir, only archir.cli imports them.
"""
