"""The language: from text to a syntax tree, from the tree to a graph; its library; and graphs as text again."""
