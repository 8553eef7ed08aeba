"""Minimum and maximum costs of a space, with the architectures that attain them."""
