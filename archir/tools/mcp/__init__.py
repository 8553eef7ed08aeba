"""MCP server for language models that write search spaces. It answers briefly and is confined to the folders it
serves."""
