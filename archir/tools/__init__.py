"""Tools built on archir: the language server, the studio, notebooks, MCP. Only the command line imports them."""
