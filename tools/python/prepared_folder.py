"""The folder that prepare.py fills: shards, lengths.csv, and a record of how far it came, from which it goes on."""
import fcntl
import hashlib
import json
import os
import tarfile

from shards import add_members

FORMAT = "omnibal.prepared/1"


def digest(paths):
    """One SHA-256 of all the files' contents."""
    whole = hashlib.sha256()
    for path in paths:
        one = hashlib.sha256()
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                one.update(piece)
        whole.update(one.digest())
    return whole.hexdigest()


def digest_of_model(folder):
    """Of what decides token ids and pixels: configurations, tokenizer and chat template, not weights."""
    names = sorted(n for n in os.listdir(folder) if n.endswith((".json", ".jinja", ".model", ".txt")) and ".safetensors." not in n)
    return digest(os.path.join(folder, name) for name in names)


def write_whole(path, text):
    """Replaces a file such that after a power cut it is the old one or the new one."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
        flush(file)
    os.replace(path + ".tmp", path)
    flush_folder(os.path.dirname(path))


def flush(file):
    file.flush()
    os.fsync(file.fileno())


def flush_folder(path):
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class PreparedFolder:
    """NAME-000000.tar, NAME-000001.tar, ..., lengths.csv and the record NAME.prepared.json.

    A shard gets its name when it is complete. The record is written behind every shard and names what made it (settings);
    what is found behind the last record is written again, so the result is that of a run nothing happened to.
    """

    def __init__(self, folder, name, limit, settings):
        """limit: samples a shard; settings: {what: JSON value} that must be the same to go on."""
        self.folder, self.name, self.limit, self.settings = folder, name, limit, settings
        self.lines = self.shards = self.written = self.dropped = self.bad = 0
        self.complete = self.goes_on = False
        self.inside, self.tar, self.lengths, self.sum = 0, None, None, hashlib.sha256()
        os.makedirs(folder, exist_ok=True)
        self.lock = os.open(folder, os.O_RDONLY)

    def __enter__(self):
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"prepare.py: another prepare.py is filling {self.folder}") from None
        except OSError:
            pass  # a file system without locks
        return self

    def __exit__(self, *_):
        """What is open is closed as it is: only `finish` completes it."""
        for file in (self.tar, self.lengths):
            if file is not None:
                (file.fileobj if isinstance(file, tarfile.TarFile) else file).close()
        os.close(self.lock)

    def path(self, ending):
        return os.path.join(self.folder, self.name + ending)

    def shard(self, number):
        return self.path(f"-{number:06d}.tar")

    def open(self, header, overwrite):
        """Takes up what an interrupted run left, or begins; header: lengths.csv's first line."""
        self.check_alone()
        lengths = None if overwrite else self.read_record()
        if lengths is None:
            self.begin(overwrite)
            self.lengths = open(self.lengths_path(), "wb")
            self.add_length(header)
        elif not self.complete:
            self.take_up_lengths(lengths)

    def check_alone(self):
        """lengths.csv is that of one run."""
        for file in sorted(os.listdir(self.folder)):
            name = file.removesuffix(".prepared.json")
            if name not in (file, self.name):
                raise SystemExit(f"prepare.py: {self.folder} has the shards of --name {name}, and lengths.csv is theirs; take another --out")

    def lengths_path(self):
        return os.path.join(self.folder, "lengths.csv")

    def read_record(self):
        """What the record says of lengths.csv; None where there is no record."""
        try:
            with open(self.path(".prepared.json"), encoding="utf-8") as file:
                record = json.load(file)
            found, lengths = record["settings"], (int(record["lengths"]["bytes"]), str(record["lengths"]["sha256"]))
            counts = {what: int(record[what]) for what in ("lines", "shards", "written", "dropped", "bad")}
            complete = bool(record["complete"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"prepare.py: {self.path('.prepared.json')}: not as prepare.py writes it ({error}); "
                             "--overwrite begins anew") from None
        others = [what for what in self.settings if found.get(what) != self.settings[what]]
        if record.get("format") != FORMAT or others:
            raise SystemExit(f"prepare.py: {self.folder} has shards of {self.name} that were made with "
                             f"{'another ' + ', another '.join(others) if others else 'another version'}; "
                             "take another --out, or --overwrite")
        missing = [self.shard(n) for n in range(counts["shards"]) if not os.path.exists(self.shard(n))]
        if missing:
            raise SystemExit(f"prepare.py: {missing[0]} is missing, although the record has it; --overwrite begins anew")
        self.__dict__.update(counts, complete=complete, goes_on=True)
        return lengths

    def begin(self, overwrite):
        """Nothing of this name may be there, or it is removed, the record first."""
        old = [self.path(".prepared.json")] * os.path.exists(self.path(".prepared.json"))
        for file in sorted(os.listdir(self.folder)):
            middle = file.removeprefix(self.name + "-").removesuffix(".tmp").removesuffix(".index").removesuffix(".tar")
            if file.startswith(self.name + "-") and ".tar" in file and len(middle) == 6 and middle.isdigit():
                if not overwrite and file.endswith(".tar"):
                    raise SystemExit(f"prepare.py: {self.folder} has {file} already, of a run that left no record; "
                                     "take another --out, or --overwrite")
                old.append(os.path.join(self.folder, file))
        for path in old:
            os.remove(path)

    def take_up_lengths(self, recorded):
        """Leaves of lengths.csv what belongs to complete shards."""
        size, wanted = recorded
        try:
            self.lengths = open(self.lengths_path(), "r+b")
        except FileNotFoundError:
            raise SystemExit(f"prepare.py: {self.lengths_path()} is missing; --overwrite begins anew") from None
        self.sum.update(self.lengths.read(size))
        if self.sum.hexdigest() != wanted:
            raise SystemExit(f"prepare.py: {self.lengths_path()} is not that of {self.name}'s shards; --overwrite begins anew")
        self.lengths.truncate(size)

    def add_length(self, line):
        line = (line + "\n").encode()
        self.lengths.write(line)
        self.sum.update(line)

    def write_settings(self, text):
        """preprocessor_config.json of pictures that stay as they are; None: of these shards there is none."""
        path = os.path.join(self.folder, "preprocessor_config.json")
        if text is not None:
            write_whole(path, text)
        elif os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if '"original_pictures"' in file.read():
                    os.remove(path)  # of shards that were replaced

    def add(self, members, length):
        """A sample's members and its line of lengths.csv."""
        if self.tar is None:
            self.tar = tarfile.open(self.shard(self.shards) + ".tmp", "w", format=tarfile.PAX_FORMAT)
        add_members(self.tar, members)
        self.add_length(length)
        self.inside, self.written = self.inside + 1, self.written + 1

    def line_done(self):
        """A line of the input is dealt with: with the last sample of a shard the shard is, too."""
        self.lines += 1
        if self.inside == self.limit:
            self.close_shard()
            self.record()

    def close_shard(self):
        path = self.shard(self.shards)
        self.tar.close()
        with open(path + ".tmp", "rb") as file:
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        self.shards, self.inside, self.tar = self.shards + 1, 0, None

    def record(self):
        flush(self.lengths)
        counts = {what: getattr(self, what) for what in ("lines", "shards", "written", "dropped", "bad", "complete")}
        lengths = {"bytes": self.lengths.tell(), "sha256": self.sum.hexdigest()}
        text = json.dumps(dict(format=FORMAT, settings=self.settings, lengths=lengths, **counts), indent=1)
        write_whole(self.path(".prepared.json"), text + "\n")

    def finish(self):
        if self.complete:
            return
        if self.tar is not None:
            self.close_shard()
        self.complete = True
        self.record()
