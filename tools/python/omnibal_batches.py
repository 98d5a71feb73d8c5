"""Batches of omnibal-batch for any Python trainer. Needs NumPy only.

    sampler = BalancedBatchSampler("batches", rank=rank)             # one group of sample numbers a step
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler, collate_fn=pack)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in loader:
            ...

The folder's arrays are mapped into memory, not read: ranks of one machine share them.
"""
import json
import os

import numpy as np

__all__ = ["Batches", "BalancedBatchSampler"]

# omnibal-batch orders rows so that so many consecutive ones look like the whole data set.
_BLOCK = 8


class Batches:
    """A folder written by omnibal-batch.

    samples: int64 [S], sample numbers, group after group
    offsets: int64 [groups + 1]; group g is samples[offsets[g]:offsets[g + 1]]
    lengths: int32 [samples of the table, 2], tiles and tokens
    settings: batches.json as a dictionary
    length_groups: the chosen length groups of groups.json, one dictionary a training mode; [] without any
    row_table: with length groups int32 [rows, 2], mode and step of each row; the rows of a step are neighbors
    """

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        path = os.path.join(self.folder, "batches.json")
        try:
            with open(path, encoding="utf-8") as file:
                self.settings = json.load(file)
            self.ranks = int(self.settings["ranks"])
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is missing: the folder was not written by omnibal-batch, or not to its "
                                    "end; run it again") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not as omnibal-batch writes it: {error!r}") from None
        self._map()
        groups = len(self.offsets) - 1
        if groups < 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.samples) or np.any(np.diff(self.offsets) < 0):
            raise ValueError(f"{self.folder}/groups.npy: the offsets do not span samples.npy")
        self.length_groups, self.row_table, self._first_groups = [], None, None
        if "length_groups" in self.settings:
            self._read_modes(groups)
        elif self.ranks < 1 or groups % self.ranks:
            raise ValueError(f"{self.folder}: {groups} groups are no multiple of {self.ranks} ranks")

    def _read_modes(self, groups):
        path = os.path.join(self.folder, "groups.json")
        try:
            with open(path, encoding="utf-8") as file:
                self.length_groups = json.load(file)["groups"]
            sizes = [(int(mode["ranks"]), int(mode["degree"]), int(mode["microbatches"])) for mode in self.length_groups]
        except OSError as error:
            raise type(error)(f"{path} cannot be read: {error.strerror}; run omnibal-batch again") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not as omnibal-batch writes it: {error!r}") from None
        if self.ranks < 1 or any(ranks * degree != self.ranks or microbatches < 1 for ranks, degree, microbatches in sizes):
            raise ValueError(f"{path}: a length group's ranks and degree are not those of {self.ranks} ranks")
        path = os.path.join(self.folder, "rows.npy")
        self.row_table = self._array(path, np.int32, 2)
        modes, steps = self.row_table[:, 0], self.row_table[:, 1]
        if self.row_table.shape[1] != 2 or np.any(modes < 0) or np.any(modes >= len(sizes)):
            raise ValueError(f"{path}: its rows have other length groups than groups.json")
        changes = np.diff(steps)
        if len(steps) and (steps[0] != 0 or np.any((changes != 0) & (changes != 1)) or np.any(np.diff(modes)[changes == 0])):
            raise ValueError(f"{path}: its steps do not follow each other, or have rows of several length groups")
        ends = np.cumsum(np.array([size[0] for size in sizes], np.int64)[modes])
        if (ends[-1] if len(ends) else 0) != groups:
            raise ValueError(f"{path}: its rows need {ends[-1] if len(ends) else 0} groups, and groups.npy has {groups}")
        self._first_groups = np.concatenate([[0], ends])

    def _map(self):
        for name, file, kind, dimensions in (("samples", "samples.npy", np.int64, 1),
                                             ("offsets", "groups.npy", np.int64, 1),
                                             ("lengths", "lengths.npy", np.int32, 2)):
            setattr(self, name, self._array(os.path.join(self.folder, file), kind, dimensions))

    @staticmethod
    def _array(path, kind, dimensions):
        try:
            array = np.load(path, mmap_mode="r")
        except ValueError:  # an empty array cannot be mapped
            array = np.load(path)
        if array.dtype != kind or array.ndim != dimensions:
            raise ValueError(f"{path}: {array.ndim} dimensions of {array.dtype} instead of {dimensions} of {kind.__name__}")
        return array

    def __getstate__(self):  # workers map the files anew instead of receiving copies
        return {"folder": self.folder}

    def __setstate__(self, state):
        self.__init__(state["folder"])

    @property
    def groups(self):
        return len(self.offsets) - 1

    @property
    def rows(self):
        """Balanced rows: one group for each rank, or for each context group of ranks."""
        return self.groups // self.ranks if self.row_table is None else len(self.row_table)

    def group_of(self, row, rank):
        """Number of the group that a rank reads of a row. In a mode of degree k, k neighboring ranks read the same one."""
        if self.row_table is None:
            return row * self.ranks + rank
        return int(self._first_groups[row]) + rank // int(self.length_groups[self.row_table[row, 0]]["degree"])

    def group(self, number):
        """Sample numbers of a group, as a list of int."""
        return self.samples[self.offsets[number]:self.offsets[number + 1]].tolist()

    def loads(self):
        """int64 [groups, 2]: tiles and tokens of every group."""
        sums = np.zeros((len(self.samples) + 1, 2), np.int64)
        np.cumsum(self.lengths[self.samples], axis=0, dtype=np.int64, out=sums[1:])
        return sums[self.offsets[1:]] - sums[self.offsets[:-1]]


class BalancedBatchSampler:
    """A PyTorch batch sampler: yields, step after step, the sample numbers of this rank's group.

    folder: what omnibal-batch wrote. With "{epoch}" in it (`batches/{epoch}`) every epoch has a folder of its own, made
        by `omnibal-batch --epoch`; a plain folder is used in every epoch, its rows in another order.
    rank: data-parallel rank; by default the RANK of torchrun.
    microbatches: rows of one optimizer step. The last step of an epoch is filled with empty lists. Of a folder with
        length groups every step has the micro-batches of its mode, which `modes()` names.
    samples: length of the data set, to refuse batches that were made for another one.

    All ranks yield equally many batches, and those of one row carry equal loads.
    """

    def __init__(self, folder, rank=None, microbatches=1, samples=None):
        self.folder = os.fspath(folder)
        self.microbatches = int(microbatches)
        self.samples = samples
        if self.microbatches < 1:
            raise ValueError(f"microbatches is {microbatches}; it must be at least 1")
        self._opened = None
        self.epoch = self.start = 0
        self.set_epoch(0)
        self.rank = self._rank(rank)

    def _rank(self, rank):
        ranks = self.batches.ranks
        if rank is None:
            rank = int(os.environ.get("RANK", 0))
            if int(os.environ.get("WORLD_SIZE", ranks)) != ranks:
                raise ValueError(f"{self._opened}: made for {ranks} data-parallel ranks, but WORLD_SIZE is "
                                 f"{os.environ['WORLD_SIZE']}; pass rank, or run omnibal-batch with other --ranks")
        if not 0 <= rank < ranks:
            raise ValueError(f"{self._opened}: made for {ranks} ranks, so there is no rank {rank}; run omnibal-batch with "
                             "other --ranks")
        return int(rank)

    def set_epoch(self, epoch, start=0):
        """The next iteration runs through `epoch`, from its batch number `start` on.

        To resume a run, pass the number of batches that were trained in the interrupted epoch. (Count them in the
        training loop: workers of a DataLoader draw batches ahead.)
        """
        epoch, start = int(epoch), int(start)
        if epoch < 0 or start < 0:
            raise ValueError(f"epoch {epoch}, start {start}: neither can be negative")
        path = self.folder.replace("{epoch}", str(epoch))
        if path != self._opened:
            batches = Batches(path)
            highest = int(batches.samples.max(initial=-1))
            if self.samples is not None and highest >= self.samples:
                raise ValueError(f"{path}: names sample {highest}, but the data set has {self.samples} samples; were the "
                                 "batches made for another one?")
            if self._opened is not None and batches.ranks != self.batches.ranks:
                raise ValueError(f"{path}: {batches.ranks} ranks, the epoch before had {self.batches.ranks}")
            if batches.row_table is not None and self.microbatches != 1:
                raise ValueError(f"{path}: its length groups say how many micro-batches a step has; leave microbatches out")
            self.batches, self._opened = batches, path
        if start > self._length():
            raise ValueError(f"{path}: start is {start}, but an epoch has {self._length()} batches")
        self.epoch, self.start = epoch, start

    def _length(self):
        """Batches of a whole epoch."""
        if self.batches.row_table is not None:
            return len(self._sequence())
        return -(-self.batches.rows // self.microbatches) * self.microbatches

    def modes(self):
        """Of each batch that the next iteration yields: the number of its length group (0 without any)."""
        if self.batches.row_table is None:
            return [0] * len(self)
        return [mode for mode, _ in self._sequence()[self.start:]]

    def _sequence(self):
        """Mode and row of every batch of the epoch; the row is -1 where a mode's last step is filled up. In later epochs
        of a plain folder the steps of a mode change places with each other, so that modes alternate as before."""
        batches, table = self.batches, self.batches.row_table
        begins = np.flatnonzero(np.diff(table[:, 1], prepend=-1))
        ends = np.append(begins[1:], len(table))
        modes, order = table[begins, 0], np.arange(len(begins))
        if self.epoch > 0 and "{epoch}" not in self.folder:
            generator = np.random.default_rng([int(batches.settings.get("seed", 0)), self.epoch])
            for mode in range(len(batches.length_groups)):
                places = np.flatnonzero(modes == mode)
                order[places] = generator.permutation(places)
        sequence = []
        for step in order:
            missing = int(batches.length_groups[modes[step]]["microbatches"]) - int(ends[step] - begins[step])
            rows = [*range(begins[step], ends[step]), *[-1] * missing]
            sequence += [(int(modes[step]), int(row)) for row in rows]
        return sequence

    def __len__(self):
        """Batches that the next iteration yields."""
        return self._length() - self.start

    def order(self):
        """Row numbers in the epoch's order. Blocks of rows are moved as a whole and rows within a block change places,
        so that a block still looks like the whole data set."""
        rows = self.batches.rows
        if self.epoch == 0 or "{epoch}" in self.folder:
            return np.arange(rows)
        generator = np.random.default_rng([int(self.batches.settings.get("seed", 0)), self.epoch])
        whole = rows // _BLOCK
        blocks = generator.permuted(np.arange(whole * _BLOCK).reshape(whole, _BLOCK), axis=1)
        return np.concatenate([blocks[generator.permutation(whole)].ravel(), np.arange(whole * _BLOCK, rows)])

    def __iter__(self):
        if self.batches.row_table is not None:
            for _, row in self._sequence()[self.start:]:
                yield self.batches.group(self.batches.group_of(row, self.rank)) if row >= 0 else []
            return
        order = self.order()
        for position in range(self.start, self._length()):
            yield self.batches.group(self.batches.group_of(order[position], self.rank)) if position < len(order) else []
