"""Samples as members of WebDataset shards: KEY.json and KEY.0.png, KEY.1.png, ..."""
import io
import json
import tarfile


def members_of(key, sample, pictures):
    """[(name, bytes)] of what a sample says (input_ids, labels, ...) and its pictures: arrays [height, width, 3] of bytes,
    or files as (extension, bytes)."""
    members = [(f"{key}.json", json.dumps({**sample, "images": len(pictures)}).encode())]
    for number, picture in enumerate(pictures):
        extension, data = picture if isinstance(picture, tuple) else ("png", png_of(picture))
        members.append((f"{key}.{number}.{extension}", data))
    return members


def png_of(picture):
    from PIL import Image
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def add_sample(tar, key, sample, pictures):
    add_members(tar, members_of(key, sample, pictures))


def add_members(tar, members):
    for name, data in members:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o644
        tar.addfile(info, io.BytesIO(data))
