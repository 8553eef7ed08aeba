"""Networks that are divided between processes: each has a part of every tensor."""
