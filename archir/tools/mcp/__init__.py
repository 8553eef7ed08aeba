"""MCP server for language models that write search spaces.

Answers are short; file access is confined to given folders.
"""
