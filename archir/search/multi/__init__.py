"""Strategies that try many architectures: they ask for scores of some, and are told. `registry.create` makes one."""
