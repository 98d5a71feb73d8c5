"""Models of dynamic resolution: pictures of different sizes as rows of patches with `image_grid_thw`.

What such a model derives from the sizes (positions of patches, which patches attend to each other, windows, taps of a
learned table) is read off while the model runs once, and becomes inputs of the graph: sizes are data of the host.
A unit is what becomes one token of the text: merge x merge patches.
"""
import contextlib
import inspect
import itertools
from unittest import mock

from exporter.pictures import derivation, processors
from exporter.pictures.arrangement import usual_arrangement
from exporter.errors import ExportError
from exporter.model import parts_of
from exporter.samples import Facts, rope_positions
from exporter.tracing import modelling_modules

# Functions of Transformers' vision_utils that turn sizes into tensors, and the graph inputs that their results become.
DERIVED = {
    "get_vision_position_ids": ("image_position_ids",),
    "get_vision_attention_seqlens": ("image_segment_ids",),
    "get_vision_window_index": ("image_window_index", "image_window_ids"),
    "get_vision_interpolation_indices_and_weights": ("image_interp_indices", "image_interp_weights"),
}
INTERPOLATED = DERIVED["get_vision_interpolation_indices_and_weights"]
BORDERS = ("image_segment_ids", "image_window_ids")  # given as cumulative lengths
OF_UNITS = ("image_window_index", "image_window_inverse")
ORDER = ("image_position_ids", "image_segment_ids", "image_window_index", "image_window_inverse", "image_window_ids",
         "image_interp_indices", "image_interp_weights")
GRIDS = {1: [(2, 3)], 2: [(1, 2), (3, 2)], 3: [(2, 2), (1, 3), (3, 1)]}  # units of the pictures of a row
# Rows of pictures, and padding on the right of the last.
CHECKED = (([GRIDS[2], GRIDS[1]], 3), ([GRIDS[1], GRIDS[1]], 0), ([[], GRIDS[3], GRIDS[1]], 2))


def ids_of(borders):
    """[0, 3, 5] -> [0, 0, 0, 1, 1]."""
    import torch
    lengths = borders[1:].long() - borders[:-1].long()
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths)


@contextlib.contextmanager
def derived_values(replacement):
    """Every function of DERIVED, wherever a model imported it, becomes replacement(name, original)."""
    with contextlib.ExitStack() as stack:
        for module in modelling_modules():
            for name in DERIVED:
                if name in vars(module):
                    stack.enter_context(mock.patch.object(module, name, replacement(name, getattr(module, name))))
        yield


def table_of(side, mode, align_corners, padding):
    if mode not in derivation.TAPS or padding != "border":
        raise ExportError(f"a table of positions is resampled by {mode} interpolation with {padding} beyond its border")
    return derivation.Table(side, mode, bool(align_corners))


def sampled_table(table, places):
    """The rows [entries, width] of a square table that is resampled at one place for each patch; None for other tensors."""
    square = table.dim() == 4 and len(table) == 1 and table.shape[-2] == table.shape[-1]
    if not square or places.dim() != 4 or len(places) != 1 or places.shape[2] != 1:
        return None
    return table[0].permute(1, 2, 0).flatten(0, 1)


@contextlib.contextmanager
def sampling(replacement):
    """`grid_sample` of a table of positions becomes replacement(original)."""
    import torch
    functional = torch.nn.functional
    with mock.patch.object(functional, "grid_sample", replacement(functional.grid_sample)):
        yield


@contextlib.contextmanager
def recorded(values, settings):
    """Keeps what the functions of DERIVED return and where tables are sampled, and the settings that say how."""
    def note_table(*given):
        table = table_of(*given)
        if settings.setdefault("table", table) != table:
            raise ExportError("several tables of positions are resampled, each in a way of its own")

    def note(name, given):
        if "window_size" in given:
            settings["window_size"] = given["window_size"]
        if name == "get_vision_interpolation_indices_and_weights":
            note_table(*(given[n] for n in ("num_grid_per_side", "mode", "align_corners", "padding")))

    def replacement(name, original):
        def call(*arguments, **options):
            bound = inspect.signature(original).bind(*arguments, **options)
            bound.apply_defaults()
            note(name, bound.arguments)
            result = original(*arguments, **options)
            parts = result if isinstance(result, tuple) else (result,)
            for graph_input, part in zip(DERIVED[name], parts):
                values[graph_input] = ids_of(part) if graph_input in BORDERS else part
            return result
        return call

    def keeping_places(original):
        def call(table, places, mode="bilinear", padding_mode="zeros", align_corners=False):
            if sampled_table(table, places) is not None:
                note_table(table.shape[-1], mode, align_corners, padding_mode)
                values.setdefault("places", []).append(places)
            return original(table, places, mode, padding_mode, align_corners)
        return call
    with derived_values(replacement), sampling(keeping_places):
        yield
    if "image_window_index" in values:
        import torch
        values["image_window_inverse"] = torch.argsort(values["image_window_index"])


def same_samples(table, places, taps):
    """Whether sampling a table at those places is what the taps give."""
    import torch
    values = torch.randn(1, 4, table.side, table.side, generator=torch.Generator().manual_seed(1))
    wanted = torch.nn.functional.grid_sample(values, places, table.interpolation, "border", table.align_corners)[0, :, :, 0].T
    indices, weights = taps
    return len(indices) == len(wanted) and torch.allclose(
        (sampled_table(values, places)[indices] * weights[..., None]).sum(1), wanted, atol=1e-4)


class Segments:
    """Stands where a model has cumulative lengths of segments: numbers of the segments, as attention takes them."""

    def __init__(self, ids):
        self.ids = ids

    def __getitem__(self, place):
        """Lengths beside attention: as many as there are patches, those behind the last segment being 0."""
        import torch
        numbers = torch.arange(self.ids.shape[0] + 1)
        return (self.ids[None] < numbers[:, None]).sum(1)[place]


def attend_in_segments(module, query, key, value, attention_mask=None, scaling=None, cu_seq_lens_q=None, **options):
    """Attention of patches of one segment to each other: the numbers of the segments stand where a fused kernel would
    take cumulative lengths."""
    import torch
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    ids = cu_seq_lens_q.ids
    mask = (ids[:, None] == ids[None, :])[None, None]
    result = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return result.transpose(1, 2).contiguous(), None


@contextlib.contextmanager
def fed(model, given):
    """The functions of DERIVED return graph inputs, and attention within the vision part is by segment."""
    import torch
    from transformers import AttentionInterface
    AttentionInterface.register("flash_segments", attend_in_segments)

    def replacement(name, original):
        def call(*arguments, **options):
            if name == "get_vision_attention_seqlens":
                return Segments(given["image_segment_ids"]), 1
            parts = tuple(Segments(given[n]) if n in BORDERS else given[n] for n in DERIVED[name])
            return parts if len(parts) > 1 else parts[0]
        return call

    def by_taps(original):
        def call(table, places, mode="bilinear", padding_mode="zeros", align_corners=False):
            rows = sampled_table(table, places)
            if rows is None or INTERPOLATED[0] not in given:
                return original(table, places, mode, padding_mode, align_corners)
            indices, weights = (given[name] for name in INTERPOLATED)
            return (torch.nn.functional.embedding(indices, rows) * weights[..., None]).sum(1).T[None, :, :, None]
        return call

    argsort, split = torch.argsort, torch.split

    def inverse(value, *arguments, **options):
        return given["image_window_inverse"] if value is given.get("image_window_index") else argsort(value, *arguments, **options)

    def whole(tensor, sizes, dim=0):
        if isinstance(sizes, (list, tuple)) and isinstance(tensor.shape[dim], torch.SymInt):
            return (tensor,)
        return split(tensor, sizes, dim)
    vision = model.get_encoder("image").config
    kept = vision._attn_implementation
    with contextlib.ExitStack() as stack:
        stack.enter_context(derived_values(replacement))
        stack.enter_context(sampling(by_taps))
        stack.enter_context(mock.patch.object(torch, "argsort", inverse))
        stack.enter_context(mock.patch.object(torch, "split", whole))
        for module in modelling_modules():
            if "get_max_seqlen" in vars(module):
                stack.enter_context(mock.patch.object(module, "get_max_seqlen", lambda *a, **k: 1))
        vision._attn_implementation = "flash_segments"
        try:
            yield
        finally:
            vision._attn_implementation = kept


def constants_used(program):
    """Tensors of numbers that the outputs of a traced program depend on."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    seen, todo = set(), [output]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(node.all_input_nodes)
    names = {node.name for node in seen}
    return [program.constants[spec.target] for spec in program.graph_signature.input_specs
            if spec.arg.name in names and spec.target in program.constants]


class GridFacts(Facts):
    """Facts of a model of dynamic resolution."""
    sizes_vary = True

    def __init__(self, model, token, merge, patch, copies, per_token):
        super().__init__(token, 1, None, per_token, model.config)
        self.model, self.merge, self.patch, self.copies = model, merge, patch, copies
        self.width = 3 * copies * patch ** 2
        self.settings = {}

    @property
    def takes_pictures(self):
        return True

    def token_inputs(self):
        return ()

    def side(self):
        """Pixels of a unit's side."""
        return self.merge * self.patch

    def window_units(self):
        return self.settings.get("window_size", 0) // self.side()

    def text(self, rows, padding=0, length=None):
        """input_ids, attention_mask and inputs per token of rows of pictures, each given by its units (height, width)."""
        import torch
        length = length or max(sum(h * w + 2 for h, w in row) for row in rows) + 9
        ids = self.drawn(len(rows), length)
        for number, row in enumerate(rows):
            at = 1
            for h, w in row:
                ids[number, at:at + h * w] = self.token
                at += h * w + 2
        mask = torch.ones_like(ids)
        if padding:
            mask[-1, -padding:] = 0
        marks = (ids == self.token).long()
        return dict(input_ids=ids, attention_mask=mask, **{name: marks.clone() for name in self.per_token})

    def patches(self, picture):
        """Rows of patches of one picture [3, height, width]."""
        return usual_arrangement(*picture.shape[1:], self.patch, self.merge, self.copies)(picture)

    def inputs(self, rows, padding=0, seed=1):
        """What Transformers' model takes for rows of pictures, each given by its units."""
        import torch
        generator = torch.Generator().manual_seed(seed)
        pictures = [torch.randn(3, h * self.side(), w * self.side(), generator=generator) for row in rows for h, w in row]
        return self.model_inputs(self.text(rows, padding), pictures)

    def model_inputs(self, text, pictures):
        import torch
        grid = [[1, picture.shape[1] // self.patch, picture.shape[2] // self.patch] for picture in pictures]
        return dict(**text, pixel_values=torch.cat([self.patches(p) for p in pictures]), image_grid_thw=torch.tensor(grid))

    def with_pictures(self, text, pictures):
        """What the model takes and what the graph takes for rows of text and pictures of several sizes."""
        if not len(pictures):
            return text, text
        inputs = self.model_inputs(text, pictures)
        return inputs, self.graph_inputs(inputs)

    def graph_inputs(self, inputs):
        """What the graph takes in its place."""
        import torch
        values = {}
        owner = features_owner(self.model)
        with torch.no_grad(), recorded(values, self.settings):
            owner.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"], return_dict=True)
        result = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        positions = rope_positions(owner, inputs)
        if positions is not None:
            result["position_ids"] = positions
        result["pixel_values"] = inputs["pixel_values"]
        if "places" in values:
            units = [(rows // self.merge, columns // self.merge) for _, rows, columns in inputs["image_grid_thw"].tolist()]
            taps = derivation.taps(units, self.merge, self.settings["table"])
            if not all(same_samples(self.settings["table"], places, taps) for places in values["places"]):
                raise ExportError(f"{type(self.model).__name__}: samples its table of positions at places of its own")
            values.update(zip(INTERPOLATED, taps))
        result.update({name: values[name] for name in ORDER if name in values})
        return result

    def difference(self):
        """What the model derives from sizes otherwise than omnibal-run does: the first graph input, or None."""
        import torch
        for rows, padding in CHECKED:
            inputs = self.inputs(rows, padding)
            graph = self.graph_inputs(inputs)
            pictures = [picture for row in rows for picture in row]
            expected = derivation.derived(pictures, self.merge, self.window_units(), self.settings.get("table"))
            if "position_ids" in graph:
                expected["position_ids"] = torch.stack([derivation.token_positions(ids, mask, self.token, row) for ids, mask, row in
                                                        zip(inputs["input_ids"], inputs["attention_mask"], rows)], dim=1)
            for name, value in graph.items():
                if name.startswith("image_") or name == "position_ids":
                    if name not in expected or not torch.equal(expected[name].to(value.dtype), value):
                        return name
        return None

    def finished(self, program):
        """Sizes that the graph asks for as numbers would be those of the traced pictures."""
        import torch
        numbers = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
        used = {user.target for node in program.graph.nodes if node.target in numbers for user in node.users}
        if any(isinstance(target, torch._ops.OpOverload) and "assert" not in str(target) and "constrain" not in str(target)
               for target in used):
            raise ExportError("sizes of pictures are used in the graph as numbers")
        grid = self.traced_grid()
        if any(torch.equal(grid, value) for value in constants_used(program) if value.shape == grid.shape):
            raise ExportError("sizes of pictures are used in the graph beside what follows from them")
        return program

    def traced_grid(self):
        import torch
        return torch.tensor([[1, h * self.merge, w * self.merge] for h, w in GRIDS[2] + GRIDS[1]])

    def traced(self):
        return self.graph_inputs(self.inputs([GRIDS[2], GRIDS[1]], padding=3))

    def checked(self):
        samples = [self.inputs(rows, padding, seed) for seed, (rows, padding) in enumerate(CHECKED, 1)]
        return [(sample, self.graph_inputs(sample)) for sample in samples]

    def axes(self):
        batch = {0: "batch", 1: "sequence"}
        patches = f"{self.merge ** 2}*units" if self.merge > 1 else "units"
        result = {"input_ids": batch, "attention_mask": batch, "position_ids": {1: "batch", 2: "sequence"},
                  "pixel_values": {0: patches}}
        for names in DERIVED.values():
            result.update({name: {0: patches} for name in names})
        result.update({name: {0: "units"} for name in OF_UNITS})
        return result

    @contextlib.contextmanager
    def forward(self, model):
        """A function of the graph's inputs that returns logits."""
        original = type(model).forward

        def forward(inputs):
            text = {n: v for n, v in inputs.items() if not n.startswith("image_")}
            derived = {n: v for n, v in inputs.items() if n.startswith("image_")}
            with fed(model, derived):
                return original(model, **text, image_grid_thw=self.traced_grid(), use_cache=False, return_dict=True).logits
        yield forward

    def description(self):
        pictures = {"patch": self.patch, "merge": self.merge, "temporal": self.copies,
                    "window": self.settings.get("window_size", 0), "grid_side": 0}
        if "table" in self.settings:
            side, interpolation, align_corners = self.settings["table"]
            pictures.update(grid_side=side, interpolation=interpolation, align_corners=align_corners)
        return {"image_token_id": self.token, "tokens_per_unit": 1, "pictures": pictures, "pixel_values_layout": "patches"}

    def __str__(self):
        return f"image token {self.token}, pictures of any size in units of {self.merge} x {self.merge} patches"


def features_owner(model):
    for owner in (getattr(model, "model", None), model):
        if owner is not None and hasattr(owner, "get_image_features"):
            return owner
    raise ExportError(f"{type(model).__name__}: has image_grid_thw but no get_image_features")


def number(config, names, default):
    for part in parts_of(config):
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, (list, tuple)) and value and isinstance(value[-1], int):
                return value[-1]
    return default


def probe_grids(model, token, per_token, folder=None):
    """GridFacts of a model, by running its vision part on one small picture; an ExportError where it derives from sizes
    what omnibal-run does not."""
    import torch
    config, name = model.config, type(model).__name__
    vision = model.get_encoder("image")
    if vision is None or vision is model:
        raise ExportError(f"{name}: no vision part is found (get_encoder)")
    side = number(vision.config, ("patch_size",), 14)
    copies = dict.fromkeys([number(vision.config, ("temporal_patch_size", "patch_temporal"), 1), 1])
    tried = []
    merges = dict.fromkeys([number(config, ("spatial_merge_size", "merge_size", "merge_kernel_size"), 2), 2, 1, 4])
    owner, width = features_owner(model), model.get_input_embeddings().weight.shape[-1]
    for merge, times in itertools.product(merges, copies):
        try:
            with torch.no_grad():
                features = owner.get_image_features(torch.randn(6 * merge ** 2, 3 * times * side ** 2),
                                                    torch.tensor([[1, 2 * merge, 3 * merge]]), return_dict=True)
            rows = sum(f.numel() for f in features.pooler_output) // width
        except Exception as error:  # whatever the model's code does with a shape that it does not take
            tried.append(f"merge {merge}, {times} copies: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}")
            continue
        if rows == 6:
            facts = GridFacts(model, token, merge, side, times, per_token)
            check(facts, name, processors.image_processor(config, folder))
            return facts
        tried.append(f"merge {merge}: 6 units become {rows} tokens")
    raise ExportError(f"{name}: patches with image_grid_thw are not taken; tried " + "; ".join(tried[:4]))


def check(facts, name, processor):
    """Whether omnibal-run gives the model what its processor would."""
    import torch
    different = facts.difference()
    if different:
        raise ExportError(f"{name}: derives {different} from the sizes of pictures in a way of its own")
    height, width = 2 * facts.side(), 3 * facts.side()
    found = processors.arrangement_by(processor, height, width) if processor else None
    places = torch.arange(3 * height * width).reshape(3, height, width)
    if found and not torch.equal(found[0](places), facts.patches(places)):
        raise ExportError(f"{name}: its processor reads patches in an order of its own")
