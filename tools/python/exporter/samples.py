"""What a picture is to a model, and inputs to trace and to check with."""
from exporter.errors import ExportError


class Facts:
    """Image token, tokens per tile, tile size."""

    def __init__(self, token, count, height, width):
        self.token, self.count, self.height, self.width = token, count, height, width

    def __str__(self):
        return f"image token {self.token}, {self.count} tokens a tile of {self.width} x {self.height}"


def facts_of(model):
    config = model.config
    token = getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)
    count = getattr(config, "image_seq_length", None)
    size = getattr(config.vision_config, "image_size", None)
    if token is None or count is None or size is None:
        raise ExportError(f"{type(model).__name__}: the configuration names no image token, tokens per image and tile "
                          "size; only models whose images are tiles of one size are supported")
    height, width = (size, size) if isinstance(size, int) else size
    return Facts(token, count, height, width)


def example_inputs(facts):
    """Two rows with two images and one, of a length that no other dimension has."""
    import torch
    length = 2 * facts.count + 11
    other = 1 if facts.token != 1 else 2
    ids = torch.full((2, length), other)
    ids[0, 1:1 + 2 * facts.count] = facts.token
    ids[1, 1:1 + facts.count] = facts.token
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    return dict(input_ids=ids, attention_mask=mask,
                pixel_values=torch.randn(3, 3, facts.height, facts.width, generator=generator))


AXES = {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence"), "pixel_values": ("images",)}
