"""The commands that write what is deployed, and prove it."""
