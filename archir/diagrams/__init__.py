"""Values that depend on choices: decision diagrams, conditions, and functions lifted to them."""
