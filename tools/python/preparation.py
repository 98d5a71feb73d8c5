"""What becomes of a conversation with pictures: token ids, labels, inputs per token and pictures, by the model's own
processor and chat template."""
import contextlib
import json
import os
from unittest import mock

MARK = "<image>"
# Pixels stay as they are; omnibal-run normalises them.
PLAIN = dict(do_rescale=False, do_normalize=False)


class BadSample(Exception):
    """What is wrong with one line of the input."""


def read_facts(folder):
    """omnibal.json, which export.py writes beside the graph; empty where there is none."""
    path = os.path.join(folder, "omnibal.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@contextlib.contextmanager
def without_videos():
    """Processors of pictures and videos can be made where what videos need is not installed."""
    from transformers.processing_utils import ProcessorMixin
    checked = ProcessorMixin.check_argument_for_proper_class

    def check(self, name, argument):
        return None if argument is None else checked(self, name, argument)
    with mock.patch.object(ProcessorMixin, "check_argument_for_proper_class", check):
        yield


def load_processor(folder):
    """The model's own processor of pictures and text, or None where Transformers has none of its kind."""
    from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, AutoTokenizer
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
    config = AutoConfig.from_pretrained(folder)
    if type(config) not in PROCESSOR_MAPPING:
        return None
    try:
        return AutoProcessor.from_pretrained(folder)
    except Exception:  # a part that is not installed: videos are not needed
        pass
    cls = PROCESSOR_MAPPING[type(config)]
    parts = {name: None for name in cls.get_attributes()}
    parts["tokenizer"] = AutoTokenizer.from_pretrained(folder)
    parts["image_processor"] = AutoImageProcessor.from_pretrained(folder, backend="pil")
    try:
        with without_videos():
            processor = cls(**parts, **settings_of(folder, cls, parts))
    except (AttributeError, TypeError, ValueError):  # a tokenizer without the tokens that it wants
        return None
    processor.chat_template = processor.chat_template or parts["tokenizer"].chat_template
    return processor


def settings_of(folder, cls, parts):
    """Settings of the processor itself in processor_config.json."""
    import inspect
    path = os.path.join(folder, "processor_config.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        values = json.load(file)
    known = inspect.signature(cls.__init__).parameters
    return {name: value for name, value in values.items() if name in known and name not in parts}


class OwnProcessor:
    """A model folder whose processor does everything."""

    def __init__(self, folder, processor, crop=None):
        self.folder, self.processor, self.facts = folder, processor, read_facts(folder)
        self.tokenizer = processor.tokenizer
        self.options = dict(PLAIN)
        if crop is not None:
            self.options["crop_to_patches"] = crop
        self.text = []

    def messages(self, turns):
        result = []
        for role, content in turns:
            pieces = []
            for i, text in enumerate(content.split(MARK)):
                pieces += [{"type": "image"}] if i else []
                pieces += [{"type": "text", "text": text}] if text else []
            result.append({"role": role, "content": pieces})
        return result

    def render(self, turns, prompt):
        token = getattr(self.processor, "image_token", None) or MARK
        template = self.processor.chat_template or self.tokenizer.chat_template
        if not template:
            names = {"user": "USER: ", "assistant": "ASSISTANT: ", "system": ""}
            text = " ".join(names[role] + content.replace(MARK, token) + (self.tokenizer.eos_token if role == "assistant" else "")
                            for role, content in turns)
            return text + (" ASSISTANT: " if prompt else "")
        options = dict(tokenize=False, add_generation_prompt=prompt, chat_template=template)
        try:
            text = self.processor.apply_chat_template(self.messages(turns), **options)
            if text.count(token) == sum(content.count(MARK) for _, content in turns):
                return text
        except Exception:  # a template for plain strings: below
            pass
        plain = [{"role": role, "content": content.replace(MARK, token)} for role, content in turns]
        return self.tokenizer.apply_chat_template(plain, **options)

    def process(self, text, pictures):
        """What the processor gives, and the text with all its placeholders that it hands to the tokenizer."""
        seen = []
        original = type(self.tokenizer).__call__

        def call(tokenizer, text=None, *arguments, **options):
            seen.append((text[0] if isinstance(text, list) else text, options))
            return original(tokenizer, text, *arguments, **options)
        with mock.patch.object(type(self.tokenizer), "__call__", call):
            try:
                given = self.processor(images=pictures or None, text=[text], return_tensors="np",
                                       **(self.options if pictures else {}))
            except ValueError as error:
                raise BadSample(str(error).splitlines()[0]) from None
        return given, seen[-1]

    def spans(self, turns, pictures, whole):
        """Where in the text with its placeholders the assistant speaks."""
        def until(turns, prompt):
            count = sum(content.count(MARK) for _, content in turns)
            return self.process(self.render(turns, prompt), pictures[:count])[1][0] if turns else self.render(turns, prompt)
        result = []
        for i, (role, _) in enumerate(turns):
            if role == "assistant":
                start, end = until(turns[:i], True), until(turns[:i + 1], False)
                if not whole.startswith(start) or not end.startswith(start):
                    raise BadSample("the chat template writes earlier turns differently when later ones follow")
                result.append((len(start), min(len(end), len(whole))))
        return result

    def encode(self, turns, pictures):
        """input_ids, labels, further inputs per token, and pictures as arrays [height, width, 3]."""
        pictures = [self.resized(picture) for picture in pictures]
        given, (whole, options) = self.process(self.render(turns, False), pictures)
        ids = [int(i) for i in given["input_ids"][0]]
        options = {name: value for name, value in options.items() if name in ("add_special_tokens", "text_pair")}
        coded = self.tokenizer(whole, return_offsets_mapping=True, **options)
        if list(coded["input_ids"]) != ids:
            raise BadSample("the processor's tokens are not those of its own text")
        spans = self.spans(turns, pictures, whole)
        labels = [token if any(a <= begin < b for a, b in spans) and end > begin else -100
                  for token, (begin, end) in zip(ids, coded["offset_mapping"])]
        return ids, labels, self.per_token(given, len(ids)), self.tiles(given) if pictures else []

    def per_token(self, given, length):
        names = self.facts.get("per_token_inputs", [])
        result = {name: [int(i) for i in given[name][0]] for name in names if name in given}
        missing = [name for name in names if name not in given]
        if missing:
            result.update(self.positions(missing, given))
        return result

    def positions(self, names, given):
        """Inputs that the model itself derives from ids and sizes: positions along several axes."""
        import torch
        from exporter import model as models, probing
        if not hasattr(self, "owner"):
            self.owner = probing.features_of(models.without_weights(models.read_config(self.folder))).__self__
        if not hasattr(self.owner, "get_rope_index"):
            raise SystemExit(f"prepare.py: {self.folder}: the graph takes {', '.join(names)}, which the processor does not give")
        from exporter.samples import arguments_of
        takes = arguments_of(self.owner.get_rope_index)
        values = self.owner.get_rope_index(**{n: torch.as_tensor(v) for n, v in given.items() if n in takes})[0]
        return {name: values[int(name.rsplit("_", 1)[1]), 0].tolist() for name in names}

    def resized(self, picture):
        """At the one size that the graph was exported for, where it was."""
        size = self.facts.get("picture")
        return picture.resize((size[1], size[0])) if size else picture

    def tiles(self, given):
        """The pictures as omnibal-run takes them: not yet normalised."""
        import numpy as np
        values = np.asarray(given["pixel_values"])
        if "image_grid_thw" in given:
            return self.from_patches(values, np.asarray(given["image_grid_thw"]))
        below = self.facts.get("tiles_below_each_other", 1)
        values = values.reshape(-1, *values.shape[-3:]).transpose(0, 2, 3, 1)
        kept = values.reshape(-1, below * values.shape[1], *values.shape[2:])
        if below == 1:
            kept = kept[np.asarray(given["pixel_attention_mask"]).reshape(len(kept), -1).any(1)] if "pixel_attention_mask" in given else kept
        return list(as_bytes(kept))

    def from_patches(self, values, grids):
        """Pictures from their patches: the place of each value is known from numbered pixels."""
        import numpy as np
        import torch
        from exporter import processors
        side = self.patch_side()
        pictures, at = [], 0
        for _, rows, columns in grids:
            count, height, width = int(rows * columns), int(rows) * side, int(columns) * side
            found = processors.arrangement_by(self.processor.image_processor, height, width)
            if found is None:
                raise SystemExit(f"prepare.py: {self.folder}: the processor does not merely rearrange pixels")
            places = found[0](torch.arange(3 * height * width).reshape(3, height, width)).numpy().reshape(-1)
            picture = np.zeros(3 * height * width, values.dtype)
            picture[places] = values[at:at + count].reshape(-1)
            pictures.append(as_bytes(picture.reshape(3, height, width).transpose(1, 2, 0)))
            at += count
        return pictures

    def patch_side(self):
        side = self.processor.image_processor.patch_size
        return int(side["height"] if isinstance(side, dict) else side)


def as_bytes(values):
    import numpy as np
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
