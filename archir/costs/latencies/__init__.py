"""Latencies of operations: tables of measurements, models fitted to measured networks, and the measuring itself."""
