"""Samples as members of WebDataset shards: KEY.json and KEY.0.png, KEY.1.png, ..."""
import io
import json
import tarfile


def add_sample(tar, key, sample, pictures):
    """Adds what a sample says (input_ids, labels, ...) and its pictures, arrays [height, width, 3] of bytes."""
    from PIL import Image
    add_member(tar, f"{key}.json", json.dumps({**sample, "images": len(pictures)}).encode())
    for number, picture in enumerate(pictures):
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "PNG")
        add_member(tar, f"{key}.{number}.png", buffer.getvalue())


def add_member(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))
