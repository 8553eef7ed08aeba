"""Elastic spaces: edits the source of a network into a space whose largest architecture is the network."""
