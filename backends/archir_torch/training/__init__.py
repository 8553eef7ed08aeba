"""The training engine: one loop for search, supernets and retraining, in plain torch.

    feed (batches by index) --> trainee.step (a learner's update) --> loop (rows, checkpoints, stops)

Every random number is a function of (seed, index), so that a run needs its step number and its tensors to go on.
"""
