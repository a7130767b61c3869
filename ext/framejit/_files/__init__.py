"""Files: checkpoints of parameters and exported graphs."""
