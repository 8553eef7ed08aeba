"""How many architectures cost how much: a space as a dynamic program."""
