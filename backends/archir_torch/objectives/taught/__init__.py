"""Objectives that compare a network with one that was trained before."""
