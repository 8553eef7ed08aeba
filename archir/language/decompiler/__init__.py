"""Decompiler: writes imported graphs as readable `.arch` programs with blocks, loops and options."""
