"""The model's own image processor, asked what becomes of a picture."""
import inspect
import os

from exporter.pictures.arrangement import arrangement_of
from exporter.model import parts_of

# An image processor's setting and the configuration's fields that say it, best first.
SETTINGS = {
    "patch_size": ("patch_size",), "merge_size": ("spatial_merge_size", "merge_size"),
    "merge_kernel_size": ("merge_kernel_size", "spatial_merge_size"), "spatial_merge_size": ("spatial_merge_size",),
    "temporal_patch_size": ("temporal_patch_size", "patch_temporal"), "encoder_patch_size": ("patch_size",),
    "downsample_factor": ("downsample_factor",), "pooling_kernel_size": ("pooling_kernel_size",),
}
FILES = ("preprocessor_config.json", "processor_config.json")


def settings_of(cls, config):
    """What the configuration says of the settings that this class knows."""
    known = {name for base in cls.__mro__ for name in vars(base)}
    valid = getattr(cls, "valid_kwargs", None)
    known |= set(getattr(valid, "__annotations__", {})) | set(inspect.signature(cls.__init__).parameters)
    result = {}
    for setting, fields in SETTINGS.items():
        values = [getattr(part, field, None) for field in fields for part in parts_of(config)]
        values = [v for v in values if isinstance(v, (int, list, tuple)) and not isinstance(v, bool)]
        if setting in known and values:
            result[setting] = values[0]
    return result


def image_processor(config, folder=None):
    """The folder's, else one of the model's kind with the configuration's sizes, else None."""
    from transformers import AutoImageProcessor
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING
    try:
        if folder and any(os.path.exists(os.path.join(folder, name)) for name in FILES):
            return AutoImageProcessor.from_pretrained(folder, backend="pil")
        cls = IMAGE_PROCESSOR_MAPPING[type(config)]
        cls = cls.get("pil") if isinstance(cls, dict) else cls[-1] if isinstance(cls, tuple) else cls
        return cls and cls(**settings_of(cls, config))
    except Exception:  # no such processor, or one that needs what is not installed
        return None


def asked(processor, picture):
    """What the processor gives for one picture whose pixels stay as they are, as numpy arrays."""
    options = dict(do_resize=False, do_rescale=False, do_normalize=False, do_convert_rgb=False, return_tensors="np")
    return dict(processor([picture], **options))


def places_of_pixels(processor, height, width, name="pixel_values"):
    """For each number of the processor's result the place in [3, height, width] that it comes from. Places are told by
    their digits, since pixels have eight bits."""
    import numpy as np
    from PIL import Image
    places = np.arange(3 * height * width).reshape(3, height, width)
    result, scale = 0, 1
    while scale <= places.max():
        digits = (places // scale % 256).astype(np.uint8).transpose(1, 2, 0)
        result = result + asked(processor, Image.fromarray(digits))[name].astype(np.int64) * scale
        scale *= 256
    return result


def without_padding(places, others, size):
    """Rows of patches without those that fill the picture up to the largest: in them no pixel is, and what else is given
    for them says so by 0 or -1. As they are where it does not."""
    rows = size // places.shape[-1]
    if places.ndim != 3 or size % places.shape[-1] or rows >= places.shape[1] or places[:, rows:].any():
        return places, others
    per_row = {name: value for name, value in others.items() if value.ndim > 1 and value.shape[1] == places.shape[1]}
    if not per_row or not all((value[:, rows:] == padding).all() for name, value in per_row.items()
                              for padding in [-1 if value[:, rows:].any() else 0]):
        return places, others
    return places[:, :rows], {**others, **{name: value[:, :rows] for name, value in per_row.items()}}


def arrangement_by(processor, height, width):
    """The Arrangement of a picture of that size, and what else the processor gives for it; None where it does not
    merely rearrange pixels."""
    import numpy as np
    from PIL import Image
    try:
        values = asked(processor, Image.fromarray(np.zeros((height, width, 3), np.uint8)))
        others = {name: np.asarray(value) for name, value in values.items() if name != "pixel_values"}
        places, others = without_padding(places_of_pixels(processor, height, width), others, 3 * height * width)
        arrangement = arrangement_of(places, height, width)
        return arrangement and (arrangement, others)
    except Exception:  # a size that it does not take
        return None


def joined_along(processor, height, width):
    """The dimension along which the processor joins the pixels of several pictures."""
    import numpy as np
    from PIL import Image
    picture = Image.fromarray(np.zeros((height, width, 3), np.uint8))
    options = dict(do_resize=False, return_tensors="np")
    one, two = (np.asarray(processor([picture] * count, **options)["pixel_values"]).shape for count in (1, 2))
    grown = [place for place, (a, b) in enumerate(zip(one, two)) if a != b]
    return grown[0] if len(grown) == 1 else 0


def rows_by(processor, height, width, patch):
    """The Arrangement of a picture as rows of patches where the processor has a function for that alone, else None."""
    import numpy as np
    from transformers.image_utils import SizeDict
    if not hasattr(processor, "patchify_image"):
        return None
    numbered = np.arange(3 * height * width).reshape(3, height, width)
    places = processor.patchify_image(numbered, SizeDict(height=patch, width=patch))
    return arrangement_of(places[None], height, width)
