"""Constructs of Python and PyTorch that ONNX has no form for, and what is traced in their place."""
