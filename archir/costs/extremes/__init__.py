"""The least and the greatest costs of a space, with the architectures that have them."""
