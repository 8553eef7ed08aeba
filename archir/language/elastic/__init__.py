"""Elastic spaces: edits the text of a network so that it becomes a space whose largest architecture is the network."""
