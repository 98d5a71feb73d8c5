"""The graph file: parameters as external data in the checkpoint, readable names, nothing that training cannot use."""
import re

from exporter.weights import checkpoint, conversion
from exporter.errors import ExportError
from exporter.model import names_of_parameters

SCOPES = "pkg.torch.onnx.name_scopes"
# A Gather's row that gets no gradient: ONNX has no word for it.
PADDING = "omnibal.padding_idx"


def first_names(model):
    """{every name of a parameter: its first}."""
    return {name: first for first, names in names_of_parameters(model).items() for name in names}


class Pointer:
    """Replaces parameters by tensors of the checkpoint and what makes the parameters from them."""

    def __init__(self, ir, folder):
        self.ir, self.folder = ir, folder
        self.initializers, self.steps, self.nodes = {}, {}, []

    def initializer(self, tensor):
        """A float initializer that lies where the checkpoint has the tensor, in whatever type it has there."""
        import onnx_ir
        if tensor.name not in self.initializers:
            shape = onnx_ir.Shape(tensor.shape)
            value = onnx_ir.Value(name=tensor.name, shape=shape, type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT))
            value.const_value = onnx_ir.ExternalTensor(
                tensor.file, tensor.offset, tensor.length, onnx_ir.DataType.FLOAT, name=tensor.name, shape=shape,
                base_dir=self.folder)
            self.initializers[tensor.name] = value
        return self.initializers[tensor.name]

    def constant(self, numbers):
        import onnx_ir
        node = onnx_ir.node("Constant", [], attributes={"value_ints": list(numbers)})
        return self.add(node, [len(numbers)], onnx_ir.DataType.INT64)

    def add(self, node, shape, dtype):
        import onnx_ir
        value = node.outputs[0]
        value.name = f"of_checkpoint_{len(self.nodes)}"
        value.shape, value.type = onnx_ir.Shape(shape), onnx_ir.TensorType(dtype)
        node.name = f"node_{value.name}"
        self.nodes.append(node)
        return value

    def value(self, origin):
        import onnx_ir
        if isinstance(origin, checkpoint.Tensor):
            return self.initializer(origin)
        if id(origin) not in self.steps:
            inputs, attributes = [self.value(part) for part in origin.inputs], {}
            if origin.kind == "Reshape":
                inputs.append(self.constant(origin.shape))
            elif origin.kind == "Slice":
                inputs += [self.constant([origin.attributes[name]]) for name in ("begin", "end", "axis")]
            else:
                attributes = dict(origin.attributes)
            node = onnx_ir.node(origin.kind, inputs, attributes=attributes)
            self.steps[id(origin)] = self.add(node, origin.shape, onnx_ir.DataType.FLOAT)
        return self.steps[id(origin)]


def point_into_checkpoint(ir, model, found, folder):
    """Every parameter becomes external data inside the checkpoint, under the checkpoint's name. Returns the tensors
    that are used."""
    import onnx_ir
    first, pointer = first_names(model), Pointer(ir, folder)
    graph = ir.graph
    for name, value in list(graph.initializers.items()):
        if name not in first:
            continue  # a buffer such as inv_freq: stays inline
        del graph.initializers[name]
        onnx_ir.convenience.replace_all_uses_with(value, pointer.value(found[first[name]]))
    for name, value in pointer.initializers.items():
        if name in graph.initializers:
            raise ExportError(f"the checkpoint's tensor {name} has the name of a buffer of the model")
        graph.initializers[name] = value
    if pointer.nodes:
        graph.insert_before(graph[0], pointer.nodes)
    return set(pointer.initializers)


def mark_padding(ir, model):
    """Rows that PyTorch does not train (`padding_idx` of an embedding) are named where the table is looked up."""
    import torch
    first = first_names(model)
    paddings = {first[f"{path}.weight"]: module.padding_idx for path, module in model.named_modules()
                if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None}
    for name, value in ir.graph.initializers.items():
        for node, place in value.uses():
            if node.op_type == "Gather" and place == 0 and first.get(name) in paddings:
                node.metadata_props[PADDING] = str(paddings[first[name]])


def drop_zero_biases(ir):
    """PyTorch's translation gives a three-dimensional convolution without bias one of zeros of a wrong shape."""
    for node in ir.graph:
        if node.op_type == "Conv" and len(node.inputs) == 3 and node.inputs[2] is not None:
            maker = node.inputs[2].producer()
            if maker is not None and maker.op_type == "Expand" and len(node.attributes["kernel_shape"].value) == 3:
                node.resize_inputs(2)


def constants_as_nodes(ir, model, saved=()):
    """Tables that are no parameters become nodes: an initializer of rank two or more, or one whose bytes the checkpoint
    holds, is taken for a parameter. `saved`: names that the checkpoint holds, buffers among them."""
    import onnx_ir
    parameters, made = first_names(model), []
    for name, value in list(ir.graph.initializers.items()):
        table = len(value.shape) > 1 or name in saved
        if name not in parameters and value.const_value is not None and table:
            node = onnx_ir.node("Constant", [], attributes={"value": value.const_value}, name=f"node_{name}")
            node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
            del ir.graph.initializers[name]
            onnx_ir.convenience.replace_all_uses_with(value, node.outputs[0])
            node.outputs[0].name = name
            made.append(node)
    if made:
        ir.graph.insert_before(ir.graph[0], made)


def drop_unused(ir, names):
    """Removes those of the named inputs that nothing reads, and returns their names."""
    unused = [value for value in ir.graph.inputs if value.name in names and not value.uses()]
    for value in unused:
        ir.graph.inputs.remove(value)
    return {value.name for value in unused}


def point_at_nothing(ir, model):
    """Every parameter becomes external data of its own name that is not there: `--no-weights`."""
    import onnx_ir
    tied = first_names(model)
    offset = 0
    for name, value in ir.graph.initializers.items():
        if name in tied:
            length = 4 * value.const_value.size
            value.const_value = onnx_ir.ExternalTensor("model.safetensors", offset, length, onnx_ir.DataType.FLOAT,
                                                       name=name, shape=value.const_value.shape, base_dir="")
            offset += length


def to_proto(ir, axes):
    """The file's contents: of the metadata only module paths and rows of padding are kept, and dimensions get readable names."""
    import onnx_ir
    proto = onnx_ir.serde.serialize_model(ir)
    for node in proto.graph.node:
        keep = [(p.key, p.value) for p in node.metadata_props if p.key in (SCOPES, PADDING)]
        del node.metadata_props[:]
        for key, value in keep:
            node.metadata_props.add(key=key, value=value)
    names = {}
    for value in proto.graph.input:
        for axis, name in axes.get(value.name, {}).items():
            dim = value.type.tensor_type.shape.dim[axis]
            if not dim.HasField("dim_param"):
                raise ExportError(f"tracing fixed the dimension {axis} ({name}) of {value.name} to {dim.dim_value}; "
                                  "the model's code depends on it")
            names.setdefault(dim.dim_param, name)
    if any("units" in name for name in names.values()):
        names.update(left_over_symbol(proto, names))
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    for value in [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_param = pattern.sub(lambda m: names[m.group(1)], dim.dim_param)
    return proto


def left_over_symbol(proto, names):
    """The symbol of units where no input has that extent: {symbol: "units"}."""
    symbols = {symbol for value in proto.graph.value_info for dim in value.type.tensor_type.shape.dim
               for symbol in re.findall(r"\bs\d+\b", dim.dim_param)} - set(names)
    return {symbols.pop(): "units"} if len(symbols) == 1 else {}


def with_weights_as_inputs(proto):
    """A copy whose external parameters are inputs: to check and to run with values given by hand."""
    import onnx
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    inline = [t for t in copy.graph.initializer if not t.external_data]
    for tensor in copy.graph.initializer:
        if tensor.external_data:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(inline)
    return copy
