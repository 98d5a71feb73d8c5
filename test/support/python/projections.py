"""Gradients as numbers that a permuted, flipped or otherwise rearranged gradient does not have.

A tensor is multiplied with three fixed random vectors. Component i (row-major, in the checkpoint's shape) of vector v of
the parameter NAME is (s + 1/2) / 2^15, where s is the i-th signed 16-bit little-endian number of the SHAKE-128 stream
(FIPS 202) of "v:NAME" in UTF-8: uniform in (-1, 1), never zero, exact in float64, and the same everywhere.
"""
import hashlib
import math
import struct

VECTORS = 3
# Of a component of the random vectors: a gradient of norm g has projections of about g times this.
RMS = 1 / math.sqrt(3)


def random_vector(name, number, count):
    stream = hashlib.shake_128(f"{number}:{name}".encode()).digest(2 * count)
    return [(s + 0.5) / 32768 for s in struct.unpack(f"<{count}h", stream)]


def projections(name, values):
    """Of a flat sequence of numbers, rounded once each."""
    return [math.fsum(a * b for a, b in zip(random_vector(name, v, len(values)), values, strict=True)) for v in range(VECTORS)]


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))
