"""Supernets: strategies that differ in which architectures a step trains, and what takes over their weights."""
