"""Joins the model's parameters and the tensors of its checkpoint."""
from exporter.weights import checkpoint, conversion
from exporter.errors import ExportError
from exporter.model import names_of_parameters


def equal_on_disk(values, a, b):
    import torch
    return list(a.shape) == list(b.shape) and torch.equal(values(a), values(b))


def match(model, folder, tensors):
    """{name of each distinct parameter or saved buffer: checkpoint.Tensor or conversion.Step}."""
    found = conversion.origins(model, tensors)
    values = checkpoint.Values(folder)
    result = {}
    for first, names in names_of_parameters(model).items():
        there = [found[name] for name in names if name in found]
        if not there:
            raise ExportError(f"{folder}: no tensor of the checkpoint is the parameter {first} "
                              f"{list(model.get_parameter(first).shape)}; was it saved by save_pretrained?")
        for other in there[1:]:
            # Both names of a tied matrix are stored: they must hold one value, else the model is not tied at all.
            one, two = conversion.sources(there[0]), conversion.sources(other)
            if len(one) != len(two) or not all(equal_on_disk(values, a, b) for a, b in zip(one, two)):
                raise ExportError(f"{folder}: {' and '.join(names)} are one parameter by the configuration, but "
                                  "different tensors of the checkpoint; set \"tie_word_embeddings\" to false")
        check(folder, first, model.get_parameter(first).shape, there[0])
        result[first] = there[0]
    for name, _ in model.named_buffers():
        if name in found:
            result[name] = found[name]
    return result


def check(folder, name, wanted, origin):
    if list(origin.shape) != list(wanted):
        raise ExportError(f"{folder}: {name} is {list(wanted)} by the configuration and {list(origin.shape)} in the "
                          "checkpoint; are config.json and the weights of one model?")
    for tensor in conversion.sources(origin):
        if tensor.dtype not in checkpoint.FLOATS:
            raise ExportError(f"{folder}: the tensor {tensor.name} is {tensor.dtype}; weights are float32, bfloat16 or "
                              "float16 (a quantized checkpoint is to be converted first)")


def load_buffers(model, folder, found):
    """Buffers that the checkpoint holds get its values (statistics of batch norms, numbers of positions)."""
    import torch
    values = checkpoint.Values(folder)
    for name, buffer in model.named_buffers():
        if name in found and isinstance(found[name], checkpoint.Tensor):
            with torch.no_grad():
                buffer.copy_(values(found[name]))


def value_of(origin, values):
    """The parameter's value, made from the checkpoint."""
    import torch
    if isinstance(origin, checkpoint.Tensor):
        return values(origin)
    inputs = [value_of(part, values) for part in origin.inputs]
    attributes = origin.attributes
    if origin.kind == "Reshape":
        return inputs[0].reshape(origin.shape)
    if origin.kind == "Transpose":
        return inputs[0].permute(attributes["perm"])
    if origin.kind == "Slice":
        return inputs[0].narrow(attributes["axis"], attributes["begin"], attributes["end"] - attributes["begin"])
    return torch.cat(inputs, attributes["axis"])
