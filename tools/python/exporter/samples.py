"""Inputs to trace and to check with: rows of text with pictures, as the model's own forward takes them."""
import contextlib
import inspect
import re

from exporter import tracing
from exporter.model import parts_of

# Extra inputs of one number per token: 1 where a picture stands.
PER_TOKEN = ("token_type_ids", "mm_token_type_ids")


WORDS = range(3, 61)  # ids that text is drawn from
NAMED = re.compile(r"(.*_)?(token|token_id|token_ids|token_index|id|index)")


def plain_words(config):
    """Those of WORDS that the vocabulary has and no field of the configuration names: markers of videos, sound or turns are
    more than a row in a table of embeddings."""
    named = set()
    for part in parts_of(config):
        for name, value in vars(part).items():
            if NAMED.fullmatch(name):
                named.update(v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, int))
    size = getattr(config.get_text_config(), "vocab_size", None) or max(WORDS) + 1
    return [word for word in WORDS if word < size and word not in named] or list(range(size))


class Layout:
    """How pictures of one size reach a model: [pictures, 3, H, W]. With `row` one leading dimension of 1 is the batch, so
    that the model takes one row of text only."""

    def __init__(self, height, width, row=False, name="pixel_values"):
        self.height, self.width, self.row, self.name = height, width, row, name

    def arrange(self, pixels):
        """[pictures, 3, H, W] as the model takes it."""
        return pixels[None] if self.row else pixels

    def arguments(self, pictures, seed=1):
        """What the model is given for so many pictures."""
        import torch
        generator = torch.Generator().manual_seed(seed)
        return {self.name: self.arrange(torch.randn(pictures, 3, self.height, self.width, generator=generator))}

    def axes(self):
        return {self.name: {1 if self.row else 0: "images"}}

    def __str__(self):
        return f"pictures of {self.width} x {self.height}"


class Facts:
    """What export found out about a model: the token that marks pictures, how many a picture takes, how it comes in."""

    def __init__(self, token=None, count=0, layout=None, per_token=(), config=None):
        self.words = list(WORDS) if config is None else plain_words(config)
        self.token, self.count, self.layout, self.per_token = token, count, layout, tuple(per_token)
        self.unread = set()  # of per_token, those that the graph turned out not to need

    prefix = False  # token types are 0 in a part in front that sees itself both ways, then 1; else 1 where pictures stand
    sizes_vary = False  # pictures of different sizes: GridFacts

    @property
    def takes_pictures(self):
        return self.layout is not None

    def token_inputs(self):
        """Graph inputs of one number per token besides the ids and the mask."""
        return tuple(name for name in self.per_token if name not in self.unread)

    def per_sample(self, graph, name):
        """What a sample says under that name, from the graph's inputs."""
        return graph[name]

    def size(self):
        """Height and width of a picture."""
        return self.layout.height, self.layout.width

    @property
    def one_row(self):
        return self.layout is not None and self.layout.row

    def drawn(self, rows, length):
        """Ids of plain text."""
        import torch
        words = torch.tensor([word for word in self.words if word != self.token])
        return words[torch.randint(0, len(words), (rows, length), generator=torch.Generator().manual_seed(length))]

    def rows(self, pictures, length=None, padding=0):
        """input_ids, attention_mask and per-token inputs; `pictures` of each row, padding on the right of the last."""
        import torch
        length = length or max(pictures, default=0) * (self.count + 2) + 11
        ids = self.drawn(len(pictures), length)
        for row, count in enumerate(pictures):
            for picture in range(count):
                begin = 1 + picture * (self.count + 2)
                ids[row, begin:begin + self.count] = self.token
        mask = torch.ones_like(ids)
        if padding:
            mask[-1, -padding:] = 0
        marks = (ids == self.token).long() if self.token is not None else torch.zeros_like(ids)
        if self.prefix:
            marks[:, :length // 2], marks[:, length // 2:] = 0, 1
        return dict(input_ids=ids, attention_mask=mask, **{name: marks.clone() for name in self.per_token})

    def with_pictures(self, rows, pixels):
        """What the model takes and what the graph takes for rows of text and pictures [pictures, 3, height, width]."""
        inputs = dict(rows)
        if self.layout is not None and len(pixels):
            inputs[self.layout.name] = self.layout.arrange(pixels)
        return inputs, inputs

    def changes(self):
        """What is replaced while the model is traced."""
        return [tracing.without_listing(), tracing.without_splitting(), tracing.with_bodies_of_any()]

    def finished(self, program):
        """The traced program as it is translated."""
        return program

    def sample(self, pictures, padding=0, seed=1):
        """Everything for rows with so many pictures."""
        inputs = self.rows(pictures, padding=padding)
        if self.layout is not None:
            inputs.update(self.layout.arguments(sum(pictures), seed))
        return inputs

    def traced(self):
        """The sample that is traced: no two dimensions agree by accident."""
        if self.layout is None:
            return self.sample([0, 0], padding=3)
        if self.one_row:
            return self.sample([2])
        return self.sample([2, 1], padding=3)

    def checked(self):
        """Samples to compare: a mask of ones, padding, rows with no, one and three pictures. Pairs of what the model
        takes and what the graph takes."""
        if self.layout is None:
            samples = [self.sample([0, 0], padding=3), self.sample([0])]
        elif self.one_row:
            samples = [self.sample([2]), self.sample([3], padding=4, seed=2), self.sample([1], seed=3)]
        else:
            samples = [self.traced(), self.sample([1, 1], seed=2), self.sample([0, 3, 1], padding=2, seed=3)]
        return [(sample, sample) for sample in samples]

    def axes(self):
        """{input: {axis: name}} of the dimensions that vary."""
        text = {1: "sequence"} if self.one_row else {0: "batch", 1: "sequence"}
        result = {name: dict(text) for name in ("input_ids", "attention_mask", *self.per_token)}
        if self.layout is not None:
            result.update(self.layout.axes())
        return result

    @contextlib.contextmanager
    def forward(self, model):
        """A function of the graph's inputs that returns logits."""
        original = type(model).forward
        yield lambda inputs: original(model, **inputs, use_cache=False, return_dict=True).logits

    def description(self):
        """What omnibal.json says."""
        if self.layout is None:
            return {"image_token_id": None}
        layout = self.layout
        return {"image_token_id": self.token, "tokens_per_picture": self.count, "height": layout.height,
                "width": layout.width, "tiles_per_picture": 1,
                "pixel_values_layout": "1NCHW" if layout.row else "NCHW"}

    def __str__(self):
        if self.layout is None:
            return "text only"
        return f"image token {self.token}, {self.count} tokens a picture; {self.layout}"


def arguments_of(function):
    return set(inspect.signature(function).parameters)


def rope_positions(owner, inputs):
    """Positions along several axes [axes, batch, sequence] as the model derives them from ids and sizes, whole numbers where
    it counts them in floating point; None where it has no such rule."""
    import torch
    if not hasattr(owner, "get_rope_index"):
        return None
    takes = arguments_of(owner.get_rope_index)
    positions = owner.get_rope_index(**{name: torch.as_tensor(value) for name, value in inputs.items() if name in takes})[0]
    return positions.long() if torch.equal(positions, positions.long()) else positions
