"""Lint rules: warnings about valid programs and their spaces; no architecture is built for them."""
