"""Import of networks that other backends read from files as lists of operator calls: torch executes and traces them."""
