"""Changes an ONNX file's initializers without the onnx package: protobuf messages as lists of [number, value], where a value
is an integer, bytes, or (for 4 and 8 byte numbers) bytes with their wire type."""
MODEL_GRAPH, GRAPH_INITIALIZER, GRAPH_OUTPUT, GRAPH_VALUE_INFO = 7, 5, 12, 13
TENSOR_DIMS, TENSOR_NAME, TENSOR_EXTERNAL_DATA = 1, 8, 13


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def write_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse(data):
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = read_varint(data, at)
        elif wire == 2:
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            length = {1: 8, 5: 4}[wire]
            value, at = (wire, data[at:at + length]), at + length
        fields.append([number, value])
    return fields


def build(fields):
    out = []
    for number, value in fields:
        if isinstance(value, int):
            out.append(write_varint(number << 3) + write_varint(value))
        elif isinstance(value, tuple):
            out.append(write_varint(number << 3 | value[0]) + value[1])
        else:
            out.append(write_varint(number << 3 | 2) + write_varint(len(value)) + value)
    return b"".join(out)


def change(message, number, edit):
    """The message with edit(value) in place of each value of the field; None takes it out."""
    edited = [[n, edit(v) if n == number else v] for n, v in parse(message)]
    return build([f for f in edited if f[1] is not None])


def initializers(model):
    """(name, {location, offset, length}) of each initializer with external data."""
    for number, graph in parse(model):
        if number == MODEL_GRAPH:
            for n, tensor in parse(graph):
                if n == GRAPH_INITIALIZER and (entries := external_data(tensor)):
                    yield dict(parse(tensor))[TENSOR_NAME].decode(), entries


def external_data(tensor):
    entries = [dict(parse(value)) for number, value in parse(tensor) if number == TENSOR_EXTERNAL_DATA]
    return {entry[1].decode(): entry[2].decode() for entry in entries}


def point(model, place):
    """The model with each initializer's external data where place(name, old entries) says: (location, offset, length)."""
    def edit(tensor):
        entries = external_data(tensor)
        if not entries:
            return tensor
        fields = [f for f in parse(tensor) if f[0] != TENSOR_EXTERNAL_DATA]
        new = place(dict(fields)[TENSOR_NAME].decode(), entries)
        fields += [[TENSOR_EXTERNAL_DATA, build([[1, key.encode()], [2, str(value).encode()]])]
                   for key, value in zip(("location", "offset", "length"), new)]
        return build(fields)
    return change(model, MODEL_GRAPH, lambda graph: change(graph, GRAPH_INITIALIZER, edit))


def reshape(model, shapes, old, new):
    """The model with other shapes of these initializers, and dimensions of `new` where outputs declare `old`."""
    def resized(tensor):
        fields = parse(tensor)
        name = dict(fields)[TENSOR_NAME].decode()
        if name not in shapes:
            return tensor
        return build([f for f in fields if f[0] != TENSOR_DIMS] + [[TENSOR_DIMS, size] for size in shapes[name]])

    def redeclared(value):
        dim = lambda d: change(d, 1, lambda size: new if size == old else size)
        shape = lambda s: change(s, 1, dim)
        return change(value, 2, lambda t: change(t, 1, lambda tensor: change(tensor, 2, shape)))

    def edit(graph):
        graph = change(graph, GRAPH_INITIALIZER, resized)
        graph = change(graph, GRAPH_OUTPUT, redeclared)
        return change(graph, GRAPH_VALUE_INFO, lambda v: None if dict(parse(v))[1].decode() in shapes else v)
    return change(model, MODEL_GRAPH, edit)
