"""Syntax tree to graph: names are resolved, static values computed, blocks expanded, shapes proved."""
