"""What both training loops stand on: token trees, the learner, checkpoints, the stop switch."""
