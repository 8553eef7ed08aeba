"""Minimum and maximum costs of a space, with architectures that attain them."""
