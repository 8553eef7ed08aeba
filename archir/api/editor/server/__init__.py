"""The language server. It needs the extra `lsp` (pygls)."""

from archir.api.editor.server.features import ArchServer, make

__all__ = ["ArchServer", "make"]
