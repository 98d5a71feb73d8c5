"""Finds out by trial what a model's pictures are: which token marks them, in what shape they come, how many tokens each
takes. The model is asked, not its configuration's promises: what a configuration says may be absent or wrong."""
import contextlib
import copy
import logging
import re

from exporter.pictures import crossing
from exporter.pictures.candidates import ASSUMED, OF_PATCHES, agrees, picture_layouts
from exporter.errors import ExportError
from exporter.pictures.grids import probe_grids
from exporter.constructs.host_values import HostValues
from exporter.model import parts_of
from exporter.pictures.one_size import PictureFacts
from exporter.samples import PER_TOKEN, Facts, Layout, arguments_of

# Parameters up to which the model may really be run where shapes alone do not tell.
RUNNABLE = 500 * 1000 * 1000
# Names of the token's field in a configuration, best first.
TOKEN_FIELDS = ("image_token_id", "image_token_index", "im_patch_id", "image_patch_id", "media_placeholder_token_id",
                "img_context_token_id", "image_pad_token_id", "media_token_id", "img_token_id")
# Names of the field with a picture's side, best first; in the vision part, then in the whole configuration.
SIZE_FIELDS = ("image_size", "img_size", "input_size", "resolution", "max_img_size")


def field(parts, names):
    for name in names:
        for part in parts:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return None


def image_token(config):
    token = field(parts_of(config), TOKEN_FIELDS)
    if token is None:
        names = [n for n in config.to_dict() if re.fullmatch(r".*(image|img|media).*(token|placeholder).*(id|index)", n)]
        token = getattr(config, names[0]) if len(names) == 1 else None
    return token


def picture_sizes(config):
    """Heights and widths to try: the vision parts' size, then a square of all positions."""
    parts = parts_of(config)
    vision = [p for p in parts if "vi" in (getattr(p, "model_type", "") or "")] or parts
    found = []
    for group in (vision, parts):
        for part in group:
            for name in SIZE_FIELDS:
                value = getattr(part, name, None)
                if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, int) for v in value):
                    found.append(tuple(value))
                elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    found.append((value, value))
    return list(dict.fromkeys(found))


def features_of(model):
    """The function that turns pictures into features, of the model or of what it wraps."""
    for owner in (getattr(model, "model", None), model.base_model, model):
        if owner is not None and hasattr(owner, "get_image_features"):
            return owner.get_image_features
    return None


def tensors_in(value):
    import torch
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in tensors_in(part)]
    return []


@contextlib.contextmanager
def shapes_only(model):
    """Runs the model on shapes alone, whatever its size."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # what is tried may fail
    with FakeTensorMode(allow_non_fake_inputs=True), HostValues():
        yield


def rows_in(result):
    """The tensors whose rows take the places of a picture's tokens: the features, or those of the first of several layers
    where a model adds features to its layers alone."""
    features = getattr(result, "pooler_output", None)
    features = features if features is not None else getattr(result, "last_hidden_state", None)
    if features is None and getattr(result, "deepstack_features", None):
        features = result.deepstack_features[0]
    return tensors_in(features if features is not None else result)


def feature_rows(model, layout, pictures):
    """How many rows of features so many pictures become."""
    import torch
    function = features_of(model)
    given = {n: v for n, v in layout.arguments(pictures).items()}
    with torch.no_grad():
        result = function(**given, **({"return_dict": True} if "kwargs" in arguments_of(function) else {}))
    found = rows_in(result)
    if not found or any(t.shape[-1] != found[0].shape[-1] for t in found):
        raise ValueError("the features are not rows of one width")
    return sum(t.numel() for t in found) // found[0].shape[-1]  # of the language model's width, or projected later


def tokens_of(model, layout):
    """Tokens a picture takes, or a ValueError: each picture must take the same number."""
    runnable = sum(p.numel() for p in model.parameters()) <= RUNNABLE
    error = None
    for mode in (shapes_only(model), *([contextlib.nullcontext()] if runnable else [])):
        try:
            with mode:
                one, three = feature_rows(model, layout, 1), feature_rows(model, layout, 3)
        except Exception as problem:  # whatever the model's code does with a shape that it does not take
            error = problem
            continue
        if one == 0 or three != 3 * one:
            raise ValueError(f"one picture takes {one} tokens and three take {three}")
        return one
    raise ValueError(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def sees_itself_both_ways(model):
    """Whether tokens of type 0 see each other both ways: then types tell a prefix from what is learnt."""
    import torch
    config = copy.deepcopy(model.config)
    for part in parts_of(config):
        part._attn_implementation = "eager"
    zeros = torch.zeros(1, 4, dtype=torch.int64)
    try:
        masks = model.create_masks_for_generate(
            config=config, inputs_embeds=torch.zeros(1, 4, 8), attention_mask=torch.ones_like(zeros), past_key_values=None,
            position_ids=torch.arange(4)[None], token_type_ids=zeros, is_first_iteration=True)
    except Exception:  # a model without masks of its own
        return False
    masks = list(masks.values()) if isinstance(masks, dict) else [masks]
    return all(isinstance(mask, torch.Tensor) and bool(mask[0, 0, 0, 3] if mask.dtype == torch.bool else mask[0, 0, 0, 3] == 0)
               for mask in masks)


def counted(model, layout):
    """Tokens a picture takes, or None."""
    try:
        return tokens_of(model, layout)
    except ValueError:
        return None


def first_taken(model, layouts):
    """The first layout that the model takes, and the tokens of a picture."""
    tried = []
    for layout in layouts:
        try:
            return layout, tokens_of(model, layout)
        except ValueError as error:
            tried.append(f"{layout}: {error}")
    raise ExportError(f"{type(model).__name__}: pictures of one size are not taken; tried " + "; ".join(tried[:4]))


def as_they_are(model, token, sizes, per_token):
    """Facts of a model that takes pictures of one size at once."""
    layouts = (Layout(height, width, row) for height, width in sizes for row in (False, True))
    layout, count = first_taken(model, layouts)
    return Facts(token, count, layout, per_token, model.config)


def one_by_one(model, token, sizes, per_token, folder):
    """Facts of a model whose pictures are given one size and traced by one."""
    name = type(model).__name__
    if "mm_encoder_outputs" not in arguments_of(type(model).forward):
        raise ExportError(f"{name}: takes no features of pictures (mm_encoder_outputs)")
    owner = features_of(model).__self__
    count = lambda layout: counted(model, layout)
    layouts = picture_layouts(model.config, arguments_of(owner.get_image_features), sizes, folder, count)
    features = owner.get_image_features
    layouts = (layout for layout in layouts if layout.says != ASSUMED or agrees(model, features, layout))
    picture, tokens = first_taken(model, layouts)
    return PictureFacts(model, owner, token, tokens, picture, per_token)


def candidates(model, token=None, size=None, folder=None):
    """Functions that give Facts to trace with, the most general first; `token` and `size` are a user's word where
    nothing can be found, `folder` may hold an image processor."""
    name, takes = type(model).__name__, arguments_of(type(model).forward)
    if "input_ids" not in takes or "decoder_input_ids" in takes:
        raise ExportError(f"{name}: not a decoder of tokens (it has a decoder beside its text encoder); "
                          "only models whose text and pictures are one sequence are taken")
    per_token = [name for name in PER_TOKEN if name in takes]
    if "pixel_values" not in takes:
        # A decoder taken out of a model with pictures has a configuration of one part, whatever it says that it takes.
        said = "image" in getattr(model, "input_modalities", ()) and len(parts_of(model.config)) > 1
        if said or features_of(model) is not None:
            raise ExportError(f"{name}: takes pictures, but not as pixel_values")
        return [lambda: Facts(config=model.config)]
    crosses = crossing.SEEN in takes
    if features_of(model) is None and "image_attention_mask" in takes:
        raise ExportError(f"{name}: tokens attend to pictures by image_attention_mask; only {crossing.SEEN} is understood")
    if features_of(model) is None and not crosses:
        raise ExportError(f"{name}: has pixel_values but no get_image_features")
    token = token if token is not None else image_token(model.config)
    if token is None:
        raise ExportError(f"{name}: the configuration names no image token; say which with --image-token")
    sizes = [size] if size else picture_sizes(model.config)
    if crosses:
        return [lambda: crossing.attended(model, token, sizes, per_token)]
    last = lambda: one_by_one(model, token, sizes, per_token, folder)
    if "image_grid_thw" in takes:
        return [last] if size else [lambda: probe_grids(model, token, per_token, folder), last]
    if not sizes and not takes & OF_PATCHES:
        raise ExportError(f"{name}: the configuration names no picture size; give --image-size")
    return [lambda: as_they_are(model, token, sizes, per_token), last]
