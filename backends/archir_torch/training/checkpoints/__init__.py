"""Checkpoints: the state of a training, kept in a folder of its own or in a phase of a run."""
