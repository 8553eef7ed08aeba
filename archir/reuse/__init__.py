"""What was trained before, used again: weights of other runs and files, networks of one supernet."""
