"""Whole networks, measured: how long a run takes, how much memory, on whatever runs them.

Every subject, a network on something at a batch size, has a process of its own, so that its memory is its own; the
processes take turns, so that a machine is busy for all of them when it is busy. Times are those of the clock on the
wall, of one run each, from its call until its outputs are there.
"""
