"""The parts of export.py: the model without memory, its samples, tracing, its checkpoint, the graph file, the check."""
