"""The random numbers of training in NumPy (runtime/data/RandomKeys.h, runtime/support/RandomBits.h)."""
import numpy

WORD = 2 ** 64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def fnv1a(text, state):
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 & WORD
    return state


def key_at(sequence, place):
    return mixed(sequence + (place + 1) * GOLDEN & WORD) >> 32 or 1


def sequences(seed, step, sample):
    """Of the sample's tokens and of its tiles."""
    of_step = mixed(mixed(seed + GOLDEN & WORD) + step & WORD)
    of_tokens = mixed(fnv1a(sample, of_step))
    return of_tokens, mixed(of_tokens + 1 & WORD)


def token_keys(seed, step, sample, tokens):
    sequence = sequences(seed, step, sample)[0]
    return numpy.array([key_at(sequence, t) for t in range(tokens)], dtype=numpy.uint32)


def row_keys(seed, step, sample, tiles, rows):
    """[tiles, rows]"""
    sequence = sequences(seed, step, sample)[1]
    return numpy.array([[key_at(key_at(sequence, tile), row) for row in range(rows)] for tile in range(tiles)], dtype=numpy.uint32)


def mix(x):
    x = (x ^ x >> numpy.uint32(16)) * numpy.uint32(0x21F0AAAD)
    x = (x ^ x >> numpy.uint32(15)) * numpy.uint32(0x735A2D97)
    return x ^ x >> numpy.uint32(16)


def uniform(keys, columns, layer, stream):
    """Numbers in [0, 1): [.., columns] for keys [..]."""
    layer = numpy.array([layer * 0x85EBCA77 + stream * 0xC2B2AE3D & 0xFFFFFFFF], dtype=numpy.uint32)
    rows = mix(numpy.asarray(keys, dtype=numpy.uint32)[..., None] ^ mix(layer))
    bits = mix(rows ^ numpy.arange(columns, dtype=numpy.uint32) * numpy.uint32(0x9E3779B1))
    return (bits >> numpy.uint32(8)) / 2.0 ** 24
