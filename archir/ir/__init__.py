"""The intermediate representation: operations, graphs of them, their types, and their text and JSON forms."""
