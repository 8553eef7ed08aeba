"""Latencies of operations: tables, models fitted to measured networks, and how they are measured."""
