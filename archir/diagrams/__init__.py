"""Values that depend on choices: decision diagrams, boolean conditions, and functions lifted to diagrams."""
