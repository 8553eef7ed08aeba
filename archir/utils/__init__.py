"""What everything stands on: diagnostics, files, settings, the budget of work."""
