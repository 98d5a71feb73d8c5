"""Pairs of answers made of a fixture's samples: the chosen one is the sample's own, the rejected one has its tokens in
reverse and lacks the last of them."""
import io
import json
import tarfile

from reference_losses import sample_sizes


def rejected(sample):
    """(ids, labels) of the rejected answer behind the sample's prompt; the fixtures' answers stand at the end."""
    begin = next(t for t, label in enumerate(sample["labels"]) if label != -100)
    answer = sample["labels"][begin:][::-1][:-1]
    return sample["input_ids"][:begin] + answer, [-100] * begin + answer


def pair_of(sample):
    ids, labels = rejected(sample)
    return {"input_ids": sample["input_ids"] + ids, "labels": sample["labels"] + labels, "images": sample["images"],
            "chosen_tokens": len(sample["input_ids"])}


def write_singles(source, path):
    """Both sequences of the pairs that have no pictures, as samples KEY-chosen and KEY-rejected; returns the keys."""
    keys = []
    with tarfile.open(source) as tar, tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for member in tar:
            sample = json.loads(tar.extractfile(member).read()) if member.name.endswith(".json") else {"images": 1}
            if sample["images"] > 0:
                continue
            keys.append(member.name[:-5])
            for side, (ids, labels) in (("chosen", (sample["input_ids"], sample["labels"])), ("rejected", rejected(sample))):
                data = json.dumps({"input_ids": ids, "labels": labels, "images": 0}).encode()
                info = tarfile.TarInfo(f"{keys[-1]}-{side}.json")
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
    return keys


def write_pairs(source, path, change=lambda key, pair: pair):
    """The shard as one of pairs; `change` gives what is written in place of a pair, or None for none."""
    with tarfile.open(source) as tar, tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        left_out = set()
        for member in tar:
            key, data = member.name.split(".")[0], tar.extractfile(member).read()
            if member.name.endswith(".json"):
                pair = change(key, pair_of(json.loads(data)))
                if pair is None:
                    left_out.add(key)
                data = json.dumps(pair).encode()
            if key not in left_out:
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))


def caps_of_pairs(steps, path):
    """The most tiles and tokens of a group; the pairs' pictures count once."""
    sizes = sample_sizes(path)
    groups = [group for step in steps for group in step["groups"]]
    return tuple(max(sum(sizes[key][i] for key in group) for group in groups) for i in (0, 1))
