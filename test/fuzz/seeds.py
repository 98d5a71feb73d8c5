#!/usr/bin/env python3
"""Writes the first inputs of the targets of the folders here: small files of each kind as the tools write them.

    seeds.py TARGET FOLDER
"""
import json
import os
import struct
import sys
import zlib

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
SEPARATOR = b"\n---\n"


def text(value):
    return json.dumps(value, separators=(",", ":")).encode()


def header(*tensors, **metadata):
    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U16": 2,
             "U32": 4, "U64": 8, "BOOL": 1}
    entries, at = {}, 0
    if metadata:
        entries["__metadata__"] = metadata
    for name, dtype, shape in tensors:
        count = sizes[dtype]
        for size in shape:
            count *= size
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
        at += count
    return text(entries)


ALL_TYPES = header(*[(t.lower(), t, [2]) for t in ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U16",
                                                   "U32", "U64", "BOOL")])


def safetensors():
    yield b"\x02" + header(("a", "F32", [2, 3]), ("b", "BF16", [0]), ("c", "U8", []), format="pt")
    yield b"\x02" + ALL_TYPES
    yield b"\x06" + ALL_TYPES
    yield b"\x04" + header(("x", "F64", [1]), ("y", "F16", [2])) + b"\0" + bytes(range(12))
    for word in (0x7fc00000, 0x7f800000, 0xff7fffff, 0x00000001, 0x477ff000):
        yield b"\x00" + header(("x", "F32", [1]), ("y", "F16", [2])) + b"\0" + struct.pack("<II", word, word)
        yield b"\x00" + header(("x", "I64", [1])) + b"\0" + struct.pack("<II", 0, word)
    yield b"\x00{}"
    plain = header(("a", "F32", [1]))
    yield b"\x01" + struct.pack("<Q", len(plain)) + plain + bytes(4)
    yield b"\x08" + text({"metadata": {"total_size": 13},
                          "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})


def npy():
    one = b"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }          \n"
    two = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }        \n"
    yield b"\x04" + one
    yield b"\x06" + one
    yield b"\x08" + two
    yield b"\x0a" + two
    yield b"\x00" + one + b"\0" + struct.pack("<qqq", 1, -1, 1 << 40)
    yield b"\x01" + b"\x93NUMPY\x01\x00" + struct.pack("<H", len(one)) + one + bytes(24)
    yield b"\x01" + b"\x93NUMPY\x02\x00" + struct.pack("<I", len(two)) + two + bytes(16)


def lengths():
    yield b"vit_num,token_num\n1,20\n0,3\n"
    yield b"\xef\xbb\xbfname, token_num ,vit_num,vit_square_sum\r\n\"a, \"\"b\"\"\n\",7,3,5\r\nc,2147483647,0,0\r\n\r\n"
    yield b"token_num,vit_num\n\"12\", 3 \n 4 ,\"0\"\n\n"
    yield b"vit_num,token_num,vit_square_sum\n2147483647,1,4611686014132420609\n3,1,9\n4,1,16"


def steps():
    yield b'{"groups": [["a", "b"], ["c"]]}\n\n{"groups": [[], ["z"]]}\n'
    yield b'{"groups": [["a"], ["b"]], "note": {"x": [1, null, true, 0.5]}}\r\n'
    yield b'{"groups": [["a"], ["b"]], "mode": "short"}\n{"groups": [["c", "d"]], "mode": 1}\n'


def length_groups():
    def group(name, tokens, microbatches):
        return {"name": name, "tiles_cap": 4, "tokens_cap": tokens, "degree": 1, "ranks": 2, "microbatches": microbatches,
                "cost": {"tile_ns": 1, "token_ns": 2, "square_ns": 0.5, "microbatch_ns": 3, "step_ns": 4}}

    return {"schema": "omnibal.length-groups/1", "replicas": 2, "stages": 1, "tokens_per_step": 64,
            "groups": [group("short", 9, 1), group("long", 32, 1)]}


def batches():
    described = {"method": "plan", "tiles_cap": 4, "tokens_cap": 32, "ranks": 2, "seed": 1, "epoch": 0,
                 "oversize_policy": "error", "samples": 4, "groups": 4}
    arrays = [[0, 1, 2, 3], [0, 1, 2, 3, 4], [1, 8, 0, 30, 2, 9, 0, 1]]
    for method in ("plan", "isf", "random", "sorted"):
        yield SEPARATOR.join([text(described | {"method": method}), *map(text, arrays)])
    yield SEPARATOR.join([text(described | {"oversize_policy": "skip", "tiles_cap": 1}), text([0, 1, 3]),
                          text([0, 1, 2, 3, 3]), text(arrays[2])])
    yield SEPARATOR.join([text(described | {"oversize_policy": "own-group", "tokens_cap": 9, "picture_sizes": True,
                                            "cost": {"tile_ns": 1.5, "token_ns": 2, "square_ns": 0.25,
                                                     "tile_square_ns": 1}}),
                          *map(text, arrays), text([1, 0, 4, 0])])
    yield SEPARATOR.join([text(described | {"mix": {"sizes": [3, 1], "weights": [0.5, 0.5], "samples": 4}}),
                          text([0, 3, 3, 1]), *map(text, arrays[1:])])
    yield SEPARATOR.join([b"{}", text([0, 1]), text([0, 1, 2])])
    for method in ("plan", "hbp"):
        yield SEPARATOR.join([text(described | {"method": method, "length_groups": 2, "rows": 3}), text([0, 3, 1, 2]),
                              text([0, 1, 2, 3, 3, 4, 4]), text(arrays[2]), text([]), text([0, 0, 1, 1, 0, 2]), text(length_groups())])


def length_groups():
    def group(name, tiles, tokens, degree, **more):
        return {"name": name, "tiles_cap": tiles, "tokens_cap": tokens, "degree": degree, "ranks": 4 // degree, "microbatches": 2,
                "cost": {"tile_ns": 3 / degree, "token_ns": 1.5, "square_ns": 0.25, "microbatch_ns": 10, "step_ns": 100}} | more

    file = {"schema": "omnibal.length-groups/1", "replicas": 4, "stages": 2, "tokens_per_step": 4096}
    samples = text([0, 30, 2, 90, 0, 7, 5, 400, 1, 60, 0, 200, 3, 120, 0, 1])
    modes = [group("short", 4, 128, 1), group("middle", 6, 256, 1), group("long", 9, 512, 2)]
    yield SEPARATOR.join([text(file | {"groups": modes}), samples])
    yield SEPARATOR.join([text(file | {"groups": modes[2:]}), samples])
    yield SEPARATOR.join([text(file | {"model": "m", "cuts": [0, 2, 5], "groups": [
        group("long", 9, 512, 4, schedule="1f1b", remat=["keep", "full"], bytes=[100, 200])]}), text([1, 512, 9, 8])])


def member(kind, name, contents=b"", claim=0):
    return kind + bytes([len(name)]) + name + bytes([claim, len(contents)]) + contents


def tar():
    sample = text({"input_ids": [1, 2], "labels": [-100, 2], "images": 1, "token_type_ids": [0, 1]})
    png = picture()[:120]
    for switches in (0, 8, 4):
        yield bytes([switches]) + member(b"0", b"a.json", sample) + member(b"0", b"a.0.png", png)
    yield b"\x00" + member(b"5", b"d/") + member(b"0", b"./d/b.0.jpeg") + member(b"0", b"d/b.json", sample)
    yield b"\x00" + member(b"L", b"././@LongLink", b"n" * 120 + b".json\0") + member(b"0", b"short", sample)
    yield b"\x00" + member(b"x", b"pax", b"20 path=other.json\n") + member(b"0", b"short", sample)
    yield b"\x00" + member(b"x", b"pax", b"13 size=1000\n") + member(b"0", b"a.json", sample)
    yield b"\x00" + member(b"x", b"pax", b"26 GNU.sparse.realsize=10\n") + member(b"S", b"a.json", sample)
    yield b"\x00" + member(b"1", b"a.json") + member(b"2", b"b.json") + member(b"g", b"g", b"")
    for claim in range(0, 64, 3):
        yield b"\x00" + member(b"0", b"a.json", sample, claim)
    block = bytearray(512)
    block[:6], block[100:108], block[124:136], block[156:157], block[257:265] = (
        b"a.json", b"0000644\0", b"00000000002\0", b"0", b"ustar\x0000")
    yield b"\x02" + bytes(block) + b"{}" + bytes(510 + 1024)


def shard_index():
    def index(samples, pictures, keys, sized, largest):
        return (b"\x02" + b"omnidx01" + bytes(24) +
                struct.pack("<qqqqq", len(samples), len(pictures), len(keys), largest, sized) +
                b"".join(struct.pack("<qqQII", *s) for s in samples) +
                b"".join(struct.pack("<qqII", *p) for p in pictures) + keys).ljust(8, b"\0")

    def fnv(key):
        state = 0xcbf29ce484222325
        for byte in key:
            state = (state ^ byte) * 0x100000001b3 % (1 << 64)
        return state

    yield b"\x00" + index([(512, 20, fnv(b"a"), 1, 1)], [(1536, 99, 2, 3)], b"a", 1, 99)[1:]
    yield b"\x00" + index([(512, 20, fnv(b"ab"), 2, 2), (4096, 9, fnv(b"c"), 3, 2)],
                          [(1536, 99, 0, 0), (2048, 100, 0, 0)], b"abc", 0, 100)[1:]
    yield b"\x00" + index([], [], b"", 1, 0)[1:]


def sample():
    yield text({"input_ids": [1, 2, 3], "labels": [-100, 2, 3]})
    yield text({"input_ids": [5, 5, 5, 5, 7], "labels": [-100] * 4 + [7], "images": 2, "token_type_ids": [0, 0, 0, 0, 1],
                "note": ["x" * 20, {"a": None}], "ratio": 0.5})


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(color=2, depth=8, width=2, height=3, interlace=0, extra=b""):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    row = (width * channels * depth + 7) // 8
    rows = b"".join(bytes([y % 5]) + bytes(range(row)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)) +
            extra + (chunk(b"PLTE", bytes(48)) if color == 3 else b"") +
            chunk(b"IDAT", zlib.compress(rows if not interlace else rows * 2)) + chunk(b"IEND", b""))


def image():
    for color, depth in ((0, 1), (0, 8), (0, 16), (2, 8), (2, 16), (3, 2), (3, 8), (4, 8), (6, 8), (6, 16)):
        yield b"\x00" + picture(color, depth)
    yield b"\x00" + picture(interlace=1, width=1, height=1)
    yield b"\x00" + picture(extra=chunk(b"tEXt", b"a\0b") + chunk(b"zTXt", b"a\0\0" + zlib.compress(b"text" * 9)) +
                            chunk(b"gAMA", struct.pack(">I", 45455)))
    yield b"\x00" + picture(color=3, depth=8, extra=b"")[:-12] + chunk(b"tRNS", bytes(3)) + chunk(b"IEND", b"")
    folder = os.path.join(DATA, "images")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        if not name.endswith(".safetensors") and len(data) < 1500:
            yield b"\x01" + data
    yield from small_pictures()


def small_pictures():
    """JPEG and WebP of a few pixels; without Pillow those of the corpus have to do."""
    try:
        import io
        from PIL import Image
    except ImportError:
        return
    rgb = Image.frombytes("RGB", (9, 5), bytes(range(135)))
    for source, kind, options in ((rgb, "JPEG", {}), (rgb, "JPEG", {"progressive": True}),
                                  (rgb, "JPEG", {"subsampling": 0, "quality": 30}), (rgb.convert("L"), "JPEG", {}),
                                  (rgb.convert("CMYK"), "JPEG", {}), (rgb, "JPEG", {"comment": b"c" * 30}),
                                  (rgb, "WEBP", {"lossless": True}), (rgb, "WEBP", {"quality": 20}),
                                  (rgb.convert("RGBA"), "WEBP", {"quality": 20}),
                                  (rgb, "WEBP", {"save_all": True, "append_images": [rgb.rotate(90)]})):
        out = io.BytesIO()
        source.save(out, kind, **options)
        yield b"\x01" + out.getvalue()


def vocabulary():
    """Bytes as characters, pieces, and configurations that name the ends of answers."""
    added = [{"id": 7, "content": "<|end|>", "special": True}, {"id": 8, "content": "<tool>", "special": False}]
    words = {"Hi": 0, "\u0120you": 1, "\u010a": 2, "\u00c3\u00a9": 3, "\u00c3": 4}
    yield text({"model": {"type": "BPE", "vocab": words}, "decoder": {"type": "ByteLevel"}, "added_tokens": added})
    yield text({"model": {"vocab": words}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]}})
    yield text({"model": {"type": "Unigram", "vocab": [["<pad>", 0], ["\u2581a\u2581b", -1.5], ["<0xC3>", -2], ["<0xZZ>", -3]]},
                "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}, "added_tokens": added[:1]})
    yield text({"eos_token_id": 2})
    yield text({"eos_token_id": [1, 106, -1], "text_config": {"eos_token_id": 7}})
    yield text({"model": {"vocab": {"far": 16777215}}, "eos_token_id": 16777215})


def references():
    """As omnibal-run writes them for the samples of ReferencesFuzz.cpp, and lines that are not."""
    lines = [{"key": key, "chosen": -12.25, "rejected": -3e-7, "digest": "00ff12ab34cd56ef"} for key in ("a", "b")]
    begin = {"format": "omnibal.references/1", "weights": "w", "samples": 2}
    yield SEPARATOR.join(map(text, (begin, *lines)))
    yield SEPARATOR.join(map(text, (begin, *lines[::-1], {**lines[0], "key": "of another data set"})))
    yield SEPARATOR.join(map(text, ({**begin, "samples": -(1 << 63)}, *lines)))
    yield SEPARATOR.join(map(text, (begin, lines[0], {**lines[1], "chosen": 1e300})))


def preprocess():
    for folder in sorted(os.listdir(DATA)):
        path = os.path.join(DATA, folder, "preprocessor_config.json")
        if os.path.exists(path):
            with open(path, "rb") as file:
                yield file.read()
    yield text({"do_rescale": True, "rescale_factor": 0.00392156862745098, "do_normalize": True,
                "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]})
    yield text({"image_processor": {"image_mean": 0.5, "image_std": 0.5, "merge_size": 2, "temporal_patch_size": 2,
                                    "patch_size": {"height": 14, "width": 14}}})
    with open(os.path.join(DATA, "pictures/originals.json"), "rb") as file:
        for kind in json.load(file).values():
            yield text({"omnibal": {"original_pictures": kind}})


def checkpoint():
    manifest = {"version": 1, "step": 7, "data_position": 3, "seed": 5,
                "settings": {"lr": 0.1, "stages": 2, "samples": "fnv1a:1", "trained": {"a": [2]},
                             "frozen": {"b": "F32"}},
                "files": [{"name": "stage-0.safetensors"}]}
    shard = header(("weight/a", "F32", [2]), ("moment1/a", "F32", [2]), ("moment2/a", "F32", [2]))
    yield text(manifest) + SEPARATOR + shard
    yield text(manifest | {"settings": {}}) + SEPARATOR + b"{}"
    yield text(manifest | {"files": [{"name": "stage-0.safetensors", "bytes": 10, "crc32": 0}]}) + SEPARATOR + b"{}"


def cluster():
    yield text({"stages": 2, "memory_bytes": [80e9, 40000000000], "device": "h100",
                "link": {"latency_ns": 10000, "bytes_per_s": 10000000000},
                "data_parallel": {"size": 2, "latency_ns": 5, "bytes_per_s": 1}})
    yield text({"stages": 1, "memory_bytes": 1, "device": {
        "name": "x", "flops": {"float32": 60000000000000, "bfloat16": 1}, "memory_bytes": 1, "bytes_per_s": 3,
        "efficiency": {"flops": 0.5, "bytes": 1e-9}}})
    yield text({"schema": "omnibal.calibration/1", "program": {"target": "host", "compute": "float32"},
                "machine": {"cores": 2}, "noise": 0.01, "labels_per_token": 0.5, "action_ns": 100,
                "link": {"latency_ns": 1.5, "bytes_per_s": 1e9}, "data_parallel": {"latency_ns": 1, "bytes_per_s": 1},
                "functions": [{"digest": "d", "name": "f", "layer": "l", "fixed_ns": 1, "tile_ns": 0, "token_ns": 2.5,
                               "square_ns": 0.125, "label_ns": 0, "tile_square_ns": 1, "error": 0.1, "measured": []}]})
    yield text({"tile_ns": 1.5, "token_ns": 2, "square_ns": 0.25, "tile_square_ns": 1, "microbatch_ns": 5, "step_ns": 3,
                "fixed_bytes": 1, "tile_bytes": 2, "token_bytes": 3, "stages": 4})


def step_plans():
    def variant(name, time, bytes_, term):
        times = {kind: {term: factor * time, "fixed_ns": 1} for kind, factor in
                 [("forward", 1), ("backward", 2), ("input_grad", 1), ("weight_grad", 1.5)]}
        return dict(times, name=name, blocks=[{"bytes": bytes_, "from": "receive", "to": "W"},
                                              {"bytes": bytes_, "from": "I", "to": "W"},
                                              {"bytes": bytes_, "from": "F", "to": "send"},
                                              {"bytes": bytes_, "from": "receive_grad", "to": "I"}])

    for memory, order, parts in [(2 ** 53 - 1, "ascending", 1), (4000, "free", 3), ([2500, 9000], "ascending", 2)]:
        chunks = [{"component": kind, "rank": rank, "variants": [variant("keep", 10, [64, 100, 1], term),
                                                                 variant("full", 13, [0, 8, 0], term)]}
                  for kind, rank, term in [("vision", 0, "tile_ns"), ("mixed", 1, "token_ns"), ("language", 0, "square_ns")]]
        actions = [[[kind, m, 0, c] for m in range(2) for kind, c in
                    [("F", 0), ("F", 1), ("F", 2), ("I", 2), ("W", 2), ("B", 1), ("B", 0)] if chunks[c]["rank"] == rank]
                   for rank in range(2)]
        yield b"\n---\n".join(map(text, [
            {"schema": "omnibal.step-problem/1", "ranks": 2, "microbatches": 2, "tiles_cap": 9, "tokens_cap": 40, "row_bucket": 8,
             "chunks": chunks, "edges": [{"from": 0, "to": 1, "bytes": [0, 9, 0], "grad_bytes": [0, 9, 0]},
                                         {"from": 1, "to": 2, "bytes": [5, 0, 2], "grad_bytes": [0, 0, 0]}],
             "link": {"latency_ns": 3, "bytes_per_s": 1e9}, "memory_bytes": memory, "alignment": 16,
             "sub_microbatches": {"most": parts, "least_tiles": 2}, "weight_gradients": order,
             "static": {"variants": [[1, 1]] * 3, "actions": actions}},
            {"step": 3, "microbatches": [{"tiles": 9, "tokens": 40, "squares": 900, "labels": 9, "cuts": [2, 4, 7]},
                                         {"tiles": 0, "tokens": 7, "squares": 49, "labels": 7}]},
            {"schema": "omnibal.step-plan/1", "step": 3, "sub_microbatches": [[0, 9], []],
             "variants": [[[1], []], [[1], [1]], [[1], [1]]],
             "actions": [[action for action in list_ if action[1:] != [1, 0, 0]] for list_ in actions], "offsets": [[], []],
             "step_ns": 1, "bound_ns": 1, "static_ns": 1, "method": "static", "evaluated": 0}]))


def json_texts():
    yield b'{"a":[1,-2,3.5,1e400,true,null,"\\u00e9\\ud83d\\ude00"],"b":{"c":{}}}'
    yield b'[' * 64 + b']' * 64
    yield b'[' * 65 + b']' * 65
    yield b'[18446744073709551615,-9223372036854775808,25e9,0.1,1E-7]'


def program():
    """ProgramSeeds.cpp writes them: programs as omnibal-compile writes them are larger."""
    return iter(())


TARGETS = {"safetensors": safetensors, "npy": npy, "lengths": lengths, "steps": steps, "batches": batches,
           "length-groups": length_groups, "tar": tar,
           "shard-index": shard_index, "sample": sample, "image": image, "preprocess": preprocess, "vocabulary": vocabulary, "references": references,
           "checkpoint": checkpoint, "cluster": cluster, "json": json_texts, "program": program, "step-plans": step_plans}


def main():
    name, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for number, data in enumerate(TARGETS[name]()):
        with open(os.path.join(folder, f"seed-{number:03}"), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
