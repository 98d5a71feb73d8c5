"""The model to trace: its own class, parameters without memory."""
import contextlib

from exporter.errors import ExportError


@contextlib.contextmanager
def parameters_without_memory():
    """Models built meanwhile have parameters of their shapes that are one zero in memory. Buffers keep their values."""
    import torch

    class SkipInitialization(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            kwargs = kwargs or {}
            target = args[0] if args else kwargs.get("tensor")  # torch.nn.init passes it by name
            if name.endswith("_") and not name.endswith("__") and isinstance(target, torch.nn.Parameter):
                return target
            return function(*args, **kwargs)

    original = torch.nn.Module.register_parameter

    def register(module, name, parameter):
        if parameter is not None and any(parameter.stride()):  # not yet: a tied one is registered twice
            zero = torch.zeros((), dtype=parameter.dtype).expand(parameter.shape)
            parameter = torch.nn.Parameter(zero, requires_grad=parameter.requires_grad)
        original(module, name, parameter)

    torch.nn.Module.register_parameter = register
    try:
        with SkipInitialization():
            yield
    finally:
        torch.nn.Module.register_parameter = original


def parts_of(config):
    """The configuration and those inside it."""
    inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return [config, *(part for direct in inner if direct is not None for part in parts_of(direct))]


def read_config(path):
    from transformers import AutoConfig
    try:
        config = AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        raise ExportError(f"{path}: Transformers cannot read the configuration: {str(error).splitlines()[0]}") from None
    for part in parts_of(config):
        part.dtype = "float32"
    return config


def auto_class(config):
    """The Transformers class that picks the model's own: pictures and text, else text alone."""
    import transformers
    for auto in (transformers.AutoModelForImageTextToText, transformers.AutoModelForCausalLM):
        if type(config) in auto._model_mapping:
            return auto
    raise ExportError(f"{type(config).__name__}: Transformers has neither an image-text-to-text nor a causal language "
                      "model of this configuration")


def without_weights(config):
    """A model whose parameters have shapes and no memory."""
    with parameters_without_memory():
        model = auto_class(config).from_config(config)
    return model.eval()


def random_weights(config, seed, init_std):
    """A model with random weights."""
    import torch
    torch.manual_seed(seed)
    if init_std is not None:
        for part in parts_of(config):
            part.initializer_range = init_std
    return auto_class(config).from_config(config)


def with_weights(folder, config):
    """The model as Transformers loads it, in float32."""
    import torch
    return auto_class(config).from_pretrained(folder, config=config, dtype=torch.float32).eval()


def distinct_parameters(model):
    """Parameters without repetitions: {name: tensor}."""
    return dict(model.named_parameters(remove_duplicate=True))


def names_of_parameters(model):
    """{name under which distinct_parameters has it: all its names, that one first}."""
    first, result = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        result.setdefault(first.setdefault(id(parameter), name), []).append(name)
    return result
