"""Costs that are worked out where they are asked for, by name: a rule for each of `FURTHER`, a family a file."""
