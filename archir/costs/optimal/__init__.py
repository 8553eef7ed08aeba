"""Provably optimal architectures under bounds on additive costs."""
