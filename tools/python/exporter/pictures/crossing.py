"""Models whose tokens attend to pictures (cross-attention): pictures are keys and no part of the row of tokens.

Which pictures a token sees follows from where their tokens stand: those of the last run of picture tokens that begins at
it or before it, as far as the run goes. The model's own processor must say the same; omnibal-run derives it. A picture
has one size, with all of its tiles in use: tiles that are empty would be hidden from some tokens and not from others.
"""
import contextlib
import importlib

from exporter.errors import ExportError
from exporter.model import parts_of
from exporter.samples import Facts, arguments_of

SEEN, STATES = "cross_attention_mask", "cross_attention_states"
# What such a model takes besides, of a picture in tiles.
OF_TILES = ("aspect_ratio_ids", "aspect_ratio_mask")


def seen_pictures(ids, token):
    """For each token the first picture that it sees and one past the last; equal where it sees none."""
    ranges, first, count = [], 0, 0
    for place, value in enumerate(ids):
        if value == token:
            if place == 0 or ids[place - 1] != token:
                first = count
            count += 1
        ranges.append((first, count))
    return ranges


def by_processor(module, ids, token):
    """The same by the processor's own function."""
    result = [[0, 0] for _ in ids]
    for picture, (begin, end) in enumerate(module.get_cross_attention_token_mask(ids, token)):
        for place in range(begin, len(ids) if end == -1 else end):
            first, last = result[place]
            result[place] = [picture if first == last else first, picture + 1]
    return [tuple(r) for r in result]


def check_rule(model):
    """That the processor of the model's family shows tokens the pictures that omnibal-run does."""
    name = type(model).__name__
    try:
        module = importlib.import_module(type(model).__module__.replace(".modeling_", ".processing_"))
        rule = module.get_cross_attention_token_mask
    except (ImportError, AttributeError):
        raise ExportError(f"{name}: its processor does not say which pictures a token sees "
                          "(get_cross_attention_token_mask)") from None
    assert rule
    for number in range(1 << 9):
        ids = [7 if number >> bit & 1 else 3 for bit in range(9)]
        ours = [r if r[0] < r[1] else (0, 0) for r in seen_pictures(ids, 7)]
        if ours != by_processor(module, ids, 7):
            raise ExportError(f"{name}: its processor shows tokens other pictures than those of the last run of picture "
                              "tokens before them")


class CrossFacts(Facts):
    """Facts of such a model, whose pictures have one size."""

    one_row = True

    def __init__(self, model, token, per_token, side, tiles, ratio, number):
        super().__init__(token, 1, None, per_token, model.config)
        self.side, self.tiles = side, tiles  # of a tile; in a picture
        self.ratio, self.number = ratio, number  # rows and columns of tiles; what the model calls that arrangement

    @property
    def takes_pictures(self):
        return True

    def size(self):
        return self.tiles * self.side[0], self.side[1]

    def of_pictures(self, pixels, seen):
        """What the model takes for pictures [pictures, 3, tiles * height, width], tiles below each other."""
        import torch
        height, width = self.side
        count = pixels.shape[0]
        return {
            "pixel_values": pixels.reshape(count, 3, self.tiles, height, width).transpose(1, 2)[None],
            "aspect_ratio_ids": torch.full((1, count), self.number, dtype=torch.int64),
            "aspect_ratio_mask": torch.ones(1, count, self.tiles, dtype=torch.int64),
            SEEN: seen[..., None].expand(*seen.shape, self.tiles).to(pixels.dtype),
        }

    def seen(self, ids):
        import torch
        rows = []
        for row in ids.tolist():
            count = row.count(self.token)
            rows.append([[int(first <= p < last) for p in range(count)] for first, last in seen_pictures(row, self.token)])
        return torch.tensor(rows, dtype=torch.int64).reshape(*ids.shape, -1)

    def with_pictures(self, rows, pixels):
        import torch
        pixels = pixels if len(pixels) else torch.zeros(0, 3, *self.size())
        seen = self.seen(rows["input_ids"])
        inputs = {**rows, **(self.of_pictures(pixels, seen) if len(pixels) else {})}
        return inputs, {**rows, "pixel_values": pixels, SEEN: seen}

    def sample(self, pictures, padding=0, seed=1):
        import torch
        generator = torch.Generator().manual_seed(seed)
        pixels = torch.randn(sum(pictures), 3, *self.size(), generator=generator)
        return self.with_pictures(self.rows(pictures, padding=padding), pixels)

    def rows(self, pictures, length=None, padding=0):
        """Also with two pictures side by side."""
        rows = super().rows(pictures, length, padding)
        ids = rows["input_ids"]
        for row, count in enumerate(pictures):
            if count > 1:  # the second stands where a token after the first was
                ids[row, 4], ids[row, 2] = ids[row, 2].clone(), self.token
        return rows

    def traced(self):
        return self.sample([2])[1]

    def checked(self):
        return [self.sample([2]), self.sample([3], padding=4, seed=2), self.sample([1], seed=3),
                self.without_pictures()]

    def without_pictures(self):
        """A row without pictures, whose attention to pictures the model leaves out, and what the graph then computes:
        attention that gives 0, and what is made of it for tokens that see nothing. ONNX Runtime takes no pictures of
        number 0; features of zeros, seen by nobody, are the same."""
        import torch
        rows = self.rows([0])

        def logits(model):
            found = []

            def note(module, positional, named):
                if isinstance(named.get(STATES), torch.Tensor):
                    found.append(named[STATES])
            hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in model.modules()]
            try:
                model(**self.sample([1])[0], use_cache=False)
            finally:
                for hook in hooks:
                    hook.remove()
            seen = torch.zeros(*rows["input_ids"].shape, 1, self.tiles)
            return model(**rows, **{STATES: torch.zeros_like(found[0]), SEEN: seen}, use_cache=False).logits
        return rows, logits

    def axes(self):
        result = {name: {1: "sequence"} for name in ("input_ids", "attention_mask", *self.per_token)}
        return {**result, "pixel_values": {0: "images"}, SEEN: {1: "sequence", 2: "images"}}

    @contextlib.contextmanager
    def forward(self, model):
        original = type(model).forward

        def forward(inputs):
            rows = {n: v for n, v in inputs.items() if n not in ("pixel_values", SEEN)}
            pictures = self.of_pictures(inputs["pixel_values"], inputs[SEEN])
            return original(model, **rows, **pictures, use_cache=False, return_dict=True).logits
        yield forward

    def description(self):
        height, width = self.size()
        return {"image_token_id": self.token, "tokens_per_picture": 1, "height": height, "width": width,
                "tiles_per_picture": 1, "tiles_below_each_other": self.tiles, "aspect_ratio_id": self.number,
                "picture": [n * side for n, side in zip(self.ratio, self.side)], "pixel_values_layout": "NCHW"}

    def __str__(self):
        tiles = f"{self.tiles} tiles of " if self.tiles > 1 else ""
        return f"image token {self.token}, which attention sees as {tiles}{self.side[1]} x {self.side[0]}"


def arrangement(model, sizes):
    """Side of a tile, tiles of a picture, their rows and columns and the number of that arrangement: the squarest that
    uses all tiles."""
    name = type(model).__name__
    for part in parts_of(model.config):
        ratios, tiles = getattr(part, "supported_aspect_ratios", None), getattr(part, "max_num_tiles", None)
        if not ratios or not tiles:
            continue
        full = [n for n, (a, b) in enumerate(ratios) if a * b == tiles]
        if not full:
            raise ExportError(f"{name}: no arrangement of tiles uses all {tiles} of a picture")
        best = min(full, key=lambda n: abs(ratios[n][0] - ratios[n][1]))
        return sizes[0], tiles, tuple(ratios[best]), best + 1
    raise ExportError(f"{name}: the configuration does not say how a picture is cut into tiles (supported_aspect_ratios)")


def attended(model, token, sizes, per_token):
    """Facts of a model that takes `cross_attention_mask`."""
    takes = arguments_of(type(model).forward)
    name = type(model).__name__
    if not takes >= {STATES, *OF_TILES}:
        raise ExportError(f"{name}: takes {SEEN}, but not {', '.join((*OF_TILES, STATES))}")
    if not sizes:
        raise ExportError(f"{name}: the configuration names no picture size; give --image-size of a tile")
    check_rule(model)
    return CrossFacts(model, token, per_token, *arrangement(model, sizes))
