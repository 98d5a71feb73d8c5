"""Pictures of one size, whatever a model does with them: its vision part is traced for one picture, where all that
follows from sizes is known, and done for every picture.

The graph takes pictures as pixels [images, 3, height, width]; a picture that the model wants in tiles has them one below
the other. How pixels become what the model takes is part of the graph.
"""
import contextlib
import types

from exporter.constructs import batching
from exporter.constructs.host_values import HostValues
from exporter.samples import Facts, arguments_of, rope_positions
from exporter.tracing import with_bodies_of_any

AXES = "position_ids_{}"  # what samples say of positions along several axes, one number per token and axis


class Picture:
    """One size. `convert` makes of one picture what the model takes for it; `constants` are its further arguments for
    one picture. Those of several pictures are joined along the first dimension, pixels along the dimension `along`."""

    def __init__(self, height, width, convert, constants=None, says="", tiles=1, whole=None, along=0):
        self.height, self.width, self.convert, self.says, self.tiles = height, width, convert, says, tiles
        self.whole = whole or (height, width)  # before it was cut into tiles
        self.constants, self.along = constants or {}, along

    def one(self, pixels):
        return {"pixel_values": self.convert(pixels), **self.constants}

    def of(self, pixels):
        """Arguments for all the pictures [pictures, 3, height, width]."""
        import torch
        count = len(pixels)
        values = torch.cat([self.convert(picture) for picture in pixels], dim=self.along)
        return {"pixel_values": values, **{name: torch.cat([value] * count) for name, value in self.constants.items()}}

    def pixels(self, count, seed=1):
        import torch
        return torch.randn(count, 3, self.height, self.width, generator=torch.Generator().manual_seed(seed))

    def arguments(self, count, seed=1):
        return self.of(self.pixels(count, seed))

    def __str__(self):
        return f"pictures of {self.width} x {self.height}{self.says}"


class Features(types.SimpleNamespace):
    """What a model's function gives for pictures. What it gives beside the features (losses of routers, maps of attention)
    is not there: None, as in Transformers."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return None


def joined(name, value):
    """What a model's function gives for one picture, now with a first dimension of pictures: as it gives it for all."""
    import torch
    if isinstance(value, torch.Tensor):
        return value.flatten(0, 1) if value.dim() > 1 else value
    if isinstance(value, (list, tuple)):
        if name == "pooler_output" and len(value) > 1:  # parts of a picture
            return [torch.cat(list(value), dim=1).flatten(0, 1)]
        return type(value)(joined("", part) for part in value)
    return value


def features_of_all(owner, picture, pixels):
    """get_image_features of every picture by itself."""
    import torch
    from torch.utils import _pytree as pytree
    function = owner.get_image_features
    options = {"return_dict": True} if "kwargs" in arguments_of(function) else {}
    structure = {}

    def one(pixels_of_one):
        with HostValues():
            result = function(**picture.one(pixels_of_one), **options)
        main = "pooler_output" if result.get("pooler_output") is not None else "last_hidden_state"
        fields = {n: result[n] for n in result if n == main or "deepstack" in n}
        leaves, structure["spec"] = pytree.tree_flatten(fields)
        structure["others"] = [leaf if not isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))

    with batching.rules():
        tensors = list(torch.vmap(one)(pixels))
    leaves = [other if other is not None else tensors.pop(0) for other in structure["others"]]
    fields = pytree.tree_unflatten(leaves, structure["spec"])
    return Features(**{name: joined(name, value) for name, value in fields.items()})


class PictureFacts(Facts):
    """Facts of a model whose pictures are given one size."""

    def __init__(self, model, owner, token, count, picture, per_token):
        super().__init__(token, count, None, per_token, model.config)
        self.model, self.owner, self.picture = model, owner, picture
        self.positions = self.axes_of_positions()

    @property
    def takes_pictures(self):
        return True

    def size(self):
        return self.picture.height, self.picture.width

    def axes_of_positions(self):
        """Names of the inputs with positions along several axes."""
        positions = rope_positions(self.owner, self.inputs(self.rows([1]), self.picture.pixels(1)))
        return () if positions is None else tuple(AXES.format(axis) for axis in range(len(positions)))

    def inputs(self, rows, pixels):
        return {**rows, **(self.picture.of(pixels) if len(pixels) else {})}

    def with_pictures(self, rows, pixels):
        inputs = self.inputs(rows, pixels)
        graph = dict(rows)
        if self.positions:
            graph["position_ids"] = rope_positions(self.owner, inputs)
        graph["pixel_values"] = pixels
        return inputs, graph

    def sample(self, pictures, padding=0, seed=1):
        return self.with_pictures(self.rows(pictures, padding=padding), self.picture.pixels(sum(pictures), seed))

    def traced(self):
        return self.sample([2, 1], padding=3)[1]

    def checked(self):
        return [self.sample([2, 1], padding=3), self.sample([1, 1], seed=2), self.sample([0, 3, 1], padding=2, seed=3)]

    def axes(self):
        text = {0: "batch", 1: "sequence"}
        result = {name: dict(text) for name in ("input_ids", "attention_mask", *self.per_token)}
        if self.positions:
            result["position_ids"] = {1: "batch", 2: "sequence"}
        return {**result, "pixel_values": {0: "images"}}

    def changes(self):
        return [with_bodies_of_any()]

    def finished(self, program):
        return batching.plain(program)

    @contextlib.contextmanager
    def forward(self, model):
        original = type(model).forward

        def forward(inputs):
            text = {n: v for n, v in inputs.items() if n != "pixel_values"}
            features = features_of_all(self.owner, self.picture, inputs["pixel_values"])
            return original(model, **text, mm_encoder_outputs={"image": features}, use_cache=False, return_dict=True).logits
        yield forward

    def per_sample(self, graph, name):
        """What a sample says under that name, from the graph's inputs."""
        return graph["position_ids"][self.positions.index(name)] if name in self.positions else graph[name]

    def token_inputs(self):
        return (*super().token_inputs(), *self.positions)

    def description(self):
        return {"image_token_id": self.token, "tokens_per_picture": self.count, "height": self.picture.height,
                "width": self.picture.width, "tiles_per_picture": 1, "tiles_below_each_other": self.picture.tiles, "picture": list(self.picture.whole),
                "pixel_values_layout": "NCHW"}

    def __str__(self):
        return f"image token {self.token}, {self.count} tokens a picture; {self.picture}"
