"""Editor features as functions from a text and an offset to plain results, and the language server (extra `lsp`)."""
