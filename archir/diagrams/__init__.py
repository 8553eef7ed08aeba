"""Values that depend on choices: multi-valued decision diagrams, conditions, and functions lifted to them."""
