"""What only programs written for MindSpore need."""
