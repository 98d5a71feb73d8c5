"""Reads TensorBoard's event files with nothing but the standard library, and checks every length and checksum."""
import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
START = 1  # of SessionLog.status


def as_float32(value):
    """What a scalar holds of a number."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def crc32c(data):
    """Bit by bit, with Castagnoli's polynomial."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def masked(data):
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(number, value)] of a message: an int, or the bytes."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == VARINT:
            value, at = varint(data, at)
        else:
            length = {FIXED64: 8, FIXED32: 4}.get(key & 7)
            if length is None:
                assert key & 7 == BYTES, f"a field of type {key & 7}"
                length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "a field is cut off"
        found.append((key >> 3, value))
    return found


def records(path):
    """The payloads; a file that ends within a record is an error."""
    with open(path, "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked(data[at:at + 8]) == check, "a length with a wrong checksum"
        payload = data[at + 12:at + 12 + length]
        assert len(payload) == length, "a record is cut off"
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(payload),), "a payload with a wrong checksum"
        found.append(payload)
        at += 16 + length
    return found


def scalar(value):
    parts = dict(fields(value))
    assert set(parts) == {1, 2}, f"fields {sorted(parts)} of a value"
    return parts[1].decode(), struct.unpack("<f", parts[2])[0]


def event(payload):
    """{"wall_time", "step", "version", "started", "scalars"}, of which only what is there."""
    made = {}
    for number, value in fields(payload):
        if number == 1:
            made["wall_time"] = struct.unpack("<d", value)[0]
        elif number == 2:
            made["step"] = value
        elif number == 3:
            made["version"] = value.decode()
        elif number == 5:
            values = [scalar(part) for field, part in fields(value) if field == 1]
            made["scalars"] = dict(values)
            assert len(made["scalars"]) == len(values), "a tag stands there twice"
        elif number == 7:
            made["started"] = dict(fields(value)) == {1: START}
        else:
            raise AssertionError(f"field {number} of an event")
    return made


def events(path):
    return [event(payload) for payload in records(path)]
