"""Latencies of operations: tables, and how they are measured."""
