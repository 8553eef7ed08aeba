"""Training engine in plain torch: one loop for architecture search, supernets and retraining.

    Feed (batches by index) --> Trainable.step (an update by a Learner) --> loop (rows of metrics, checkpoints,
    stopping)

Every random number is a function of (seed, index), so that a run can be resumed from the step number and the tensors
alone.
"""
