"""The intermediate representation: operations, and graphs of them."""
