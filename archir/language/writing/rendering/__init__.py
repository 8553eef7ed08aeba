"""From the outline of a program to its text: statements, expressions in them, blocks and nets of them."""
