"""Proof that a model computes what its network computes, when it is written and later, from anybody."""
