"""What editors ask of a text: functions from a text and a place to results, and the language server (extra `lsp`)."""
