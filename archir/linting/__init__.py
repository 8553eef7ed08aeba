"""Lint rules: warnings about valid programs and their spaces, without building any architecture."""
