"""How pictures reach a model: their shapes, sizes, patches and places, found out by asking the model and its processor."""
