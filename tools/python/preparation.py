"""What becomes of a conversation with pictures: token ids, labels, inputs per token and pictures, by the model's own
processor and chat template."""
import contextlib
import functools
import inspect
import json
import os
from unittest import mock

MARK = "<image>"
# Pixels stay as they are; omnibal-run normalizes them.
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
    try:
        parts = {name: None for name in cls.get_attributes()}
    except ImportError as error:  # not even the class is there
        raise SystemExit(f"prepare.py: {folder}: {str(error).strip().splitlines()[0]}") from None
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
    path = os.path.join(folder, "processor_config.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        values = json.load(file)
    known = inspect.signature(cls.__init__).parameters
    return {name: value for name, value in values.items() if name in known and name not in parts}


def messages_of(turns):
    """Turns (role, text) as templates take them, pictures by themselves."""
    result = []
    for role, content in turns:
        pieces = []
        for i, text in enumerate(content.split(MARK)):
            pieces += [{"type": "image"}] if i else []
            pieces += [{"type": "text", "text": text}] if text else []
        result.append({"role": role, "content": pieces})
    return result


def rendered(turns, prompt, token, tokenizer, apply, **options):
    """The text of the turns with `token` where pictures are, by the chat template, which `apply` applies to messages; by
    plain names of the speakers where there is none."""
    plain = [(role, content.replace(MARK, token)) for role, content in turns]
    if not apply:
        names = {"user": "USER: ", "assistant": "ASSISTANT: ", "system": ""}
        text = " ".join(names[role] + content + (tokenizer.eos_token if role == "assistant" else "") for role, content in plain)
        return text + (" ASSISTANT: " if prompt else "")
    options = dict(tokenize=False, add_generation_prompt=prompt, **options)
    try:
        text = apply(messages_of(turns), **options)
        if text.count(token) == sum(content.count(MARK) for _, content in turns):
            return text
    except Exception:  # a template for plain strings: below
        pass
    return tokenizer.apply_chat_template([{"role": role, "content": content} for role, content in plain], **options)


def spoken(turns, whole, until, first=0):
    """Where in the text of all turns the assistant speaks, from turn `first` on; until(turns, prompt) is the text of the
    first turns."""
    result = []
    for i, (role, _) in enumerate(turns):
        if role == "assistant" and i >= first:
            start, end = until(turns[:i], True), whole if i + 1 == len(turns) else until(turns[:i + 1], False)
            if not whole.startswith(start) or not end.startswith(start):
                raise BadSample("the chat template writes earlier turns differently when later ones follow")
            result.append((len(start), min(len(end), len(whole))))
    return result


def labels_of(coded, spans):
    """Labels of a text's tokens: what the assistant says is learnt, nothing else."""
    return [token if any(a <= begin < b for a, b in spans) and end > begin else -100
            for token, (begin, end) in zip(coded["input_ids"], coded["offset_mapping"], strict=True)]


class OwnProcessor:
    """A model folder whose processor does everything."""

    def __init__(self, folder, processor, crop=None):
        self.folder, self.processor, self.facts = folder, processor, read_facts(folder)
        self.tokenizer = processor.tokenizer
        self.options = dict(PLAIN)
        if crop is not None:
            self.options["crop_to_patches"] = crop
        # Asking costs more than a picture, and many have the same size.
        self.places = functools.lru_cache(maxsize=8)(self.places_of)

    def render(self, turns, prompt):
        token = getattr(self.processor, "image_token", None) or MARK
        template = self.processor.chat_template or self.tokenizer.chat_template
        return rendered(turns, prompt, token, self.tokenizer, template and self.processor.apply_chat_template, chat_template=template)

    def process(self, text, pictures, **options):
        """What the processor gives, and the text with all its placeholders that it hands to the tokenizer."""
        seen = []
        original = type(self.tokenizer).__call__

        def call(tokenizer, text=None, *arguments, **options):
            seen.append((text[0] if isinstance(text, list) else text, options))
            return original(tokenizer, text, *arguments, **options)
        with mock.patch.object(type(self.tokenizer), "__call__", call):
            try:
                given = self.processor(images=pictures or None, text=[text], return_tensors="np",
                                       **(self.options if pictures else {}), **options)
            except ValueError as error:
                raise BadSample(str(error).splitlines()[0]) from None
        return given, seen[-1]

    def expanded(self, turns, pictures, prompt):
        """The text of the first turns with its placeholders."""
        text = self.render(turns, prompt)
        count = sum(content.count(MARK) for _, content in turns)
        return self.process(text, pictures[:count])[1][0] if turns else text

    def encode(self, turns, pictures, first=0):
        """input_ids, labels, further inputs per token, and pictures as arrays [height, width, 3]; learnt is what the
        assistant says from turn `first` on."""
        pictures = [self.resized(picture) for picture in pictures]
        if "suffix" in inspect.signature(type(self.processor).__call__).parameters:
            given, labels = self.question_and_answer(turns, pictures)
        else:
            given, labels = self.conversation(turns, pictures, first)
        return ids_of(given), labels, self.per_token(given, len(labels)), self.tiles(given) if pictures else []

    def conversation(self, turns, pictures, first):
        """What the processor gives for all turns as one text, and the labels of what the assistant says."""
        given, (whole, options) = self.process(self.render(turns, False), pictures)
        options = {name: value for name, value in options.items() if name in ("add_special_tokens", "text_pair")}
        coded = self.tokenizer(whole, return_offsets_mapping=True, **options)
        if list(coded["input_ids"]) != ids_of(given):
            raise BadSample("the processor's tokens are not those of its own text")
        return given, labels_of(coded, spoken(turns, whole, lambda turns, prompt: self.expanded(turns, pictures, prompt), first))

    def question_and_answer(self, turns, pictures):
        """The same by a processor that takes the answer as `suffix` and tells by token types what is learnt. Such a model
        has no turns: a question, behind its pictures, and the answer are all."""
        if [role for role, _ in turns] != ["user", "assistant"]:
            raise BadSample("the model's processor takes one question and its answer, no further turns")
        (_, question), (_, answer) = turns
        text = self.processor.image_token * question.count(MARK) + question.replace(MARK, "").strip()
        given, _ = self.process(text, pictures, suffix=[answer])
        return given, [token if kind == 1 else -100 for token, kind in zip(ids_of(given), given["token_type_ids"][0])]

    def per_token(self, given, length):
        names = self.facts.get("per_token_inputs", [])
        result = {name: [int(i) for i in given[name][0]] for name in names if name in given}
        missing = [name for name in names if name not in given]
        if missing:
            result.update(self.positions(missing, given))
        return result

    def positions(self, names, given):
        """Inputs that the model itself derives from ids and sizes: positions along several axes."""
        from exporter import model as models, samples
        from exporter.pictures import probing
        if not hasattr(self, "owner"):
            self.owner = probing.features_of(models.without_weights(models.read_config(self.folder))).__self__
        values = samples.rope_positions(self.owner, given)
        if values is None:
            raise SystemExit(f"prepare.py: {self.folder}: the graph takes {', '.join(names)}, which the processor does not give")
        return {name: values[int(name.rsplit("_", 1)[1]), 0].tolist() for name in names}

    def resized(self, picture):
        """At the one size that the graph was exported for, where it was."""
        size = self.facts.get("picture")
        return picture.resize((size[1], size[0])) if size else picture

    def tiles(self, given):
        """The pictures as omnibal-run takes them: not yet normalized."""
        import numpy as np
        values = np.asarray(given["pixel_values"])
        others = [name for name in given if "pixel_values" in name and name != "pixel_values" and given[name] is not None]
        if others:
            raise BadSample(f"the processor gives {others[0]} beside pixel_values, which the graph does not take")
        if "image_grid_thw" in given:
            return self.from_patches(values, np.asarray(given["image_grid_thw"]))
        if values.ndim == 3:
            return self.from_rows(values)
        below, arranged = self.facts.get("tiles_below_each_other", 1), self.facts.get("aspect_ratio_id")
        if arranged is not None and (np.asarray(given["aspect_ratio_ids"]) != arranged).any():
            raise BadSample("the processor arranges the tiles of a picture in another way than the graph was exported for")
        values = values.reshape(-1, *values.shape[-3:]).transpose(0, 2, 3, 1)
        kept = values.reshape(-1, below * values.shape[1], *values.shape[2:])
        if below == 1:
            kept = kept[np.asarray(given["pixel_attention_mask"]).reshape(len(kept), -1).any(1)] if "pixel_attention_mask" in given else kept
        return list(as_bytes(kept))

    def from_rows(self, values):
        """Pictures of the graph's size from rows of patches [pictures, patches, values], behind which padding may be."""
        import numpy as np
        height, width = self.facts["height"], self.facts["width"]
        size, numbers = 3 * height * width, values.reshape(len(values), -1)
        if numbers.shape[1] < size or numbers[:, size:].any():
            raise BadSample(f"the processor's pictures are not {width} x {height}, the size that the graph was exported for "
                            "(export.py --image-size)")
        pictures = np.zeros((len(values), size), values.dtype)
        pictures[:, self.places(height, width)] = numbers[:, :size]
        return list(as_bytes(pictures.reshape(-1, 3, height, width).transpose(0, 2, 3, 1)))

    def from_patches(self, values, grids):
        """Pictures from their patches: the place of each value is known from numbered pixels."""
        import numpy as np
        side = self.patch_side()
        pictures, at = [], 0
        for _, rows, columns in grids:
            count, height, width = int(rows * columns), int(rows) * side, int(columns) * side
            places = self.places(height, width)
            picture = np.zeros(3 * height * width, values.dtype)
            picture[places] = values[at:at + count].reshape(-1)
            pictures.append(as_bytes(picture.reshape(3, height, width).transpose(1, 2, 0)))
            at += count
        return pictures

    def units_of_pictures(self, pictures):
        """How many merged patches each picture is, where sizes vary; else None."""
        sizes = self.facts.get("pictures")
        if not sizes:
            return None
        side = sizes["patch"] * sizes["merge"]
        return [picture.shape[0] // side * (picture.shape[1] // side) for picture in pictures]

    def places_of(self, height, width):
        """For each value of a picture's patches the place in [3, height, width] that it comes from."""
        import torch
        from exporter.pictures import processors
        found = processors.arrangement_by(self.processor.image_processor, height, width)
        if found is None:
            raise SystemExit(f"prepare.py: {self.folder}: the processor does not merely rearrange pixels")
        return found[0](torch.arange(3 * height * width).reshape(3, height, width)).numpy().reshape(-1)

    def patch_side(self):
        side = self.processor.image_processor.patch_size
        return int(side["height"] if isinstance(side, dict) else side)


def ids_of(given):
    return [int(i) for i in given["input_ids"][0]]


def as_bytes(values):
    import numpy as np
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
