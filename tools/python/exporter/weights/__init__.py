"""Checkpoints and how the parameters of a model come from their tensors."""
