"""Which architectures compute the same, told without canonical forms as far as possible."""
