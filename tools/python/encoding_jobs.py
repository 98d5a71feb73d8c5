"""Encodes the lines of an input in several processes; the results come in the lines' order."""
import collections
import itertools
import multiprocessing
import multiprocessing.connection
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

# Lines that go to a process together, how many such chunks are under way for each process, and the fewest lines for which
# processes are worth their start.
CHUNK, AHEAD, FEW = 4, 2, 64

_encoder = None


def _start(make):
    """Begins a worker, which must not outlive the process that reads its results."""
    global _encoder
    parent = multiprocessing.parent_process().sentinel
    threading.Thread(target=lambda: (multiprocessing.connection.wait([parent]), os._exit(1)), daemon=True).start()
    _encoder = make()


def _encode(chunk):
    return [(place, _encoder(number, item)) for number, (place, item) in chunk]


class Encoding:
    """encoder(number, item) of every line (number, (place, item)).

    make: makes another encoder in another process (can be pickled); jobs: how many of them.
    """

    def __init__(self, encoder, make, jobs):
        self.encoder, self.make, self.jobs, self.pool = encoder, make, jobs, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pool:
            self.pool.shutdown(cancel_futures=True)

    def all(self, lines):
        """(place, result) of each line."""
        lines = iter(lines)
        first = list(itertools.islice(lines, FEW))
        if self.jobs == 1 or len(first) < FEW:
            for number, (place, item) in itertools.chain(first, lines):
                yield place, self.encoder(number, item)
            return
        # A new interpreter each: threads of a tokenizer or of PyTorch would not survive a fork.
        self.pool = ProcessPoolExecutor(self.jobs, multiprocessing.get_context("spawn"), _start, (self.make,))
        yield from self.in_processes(itertools.chain(first, lines))

    def in_processes(self, lines):
        """Only so many chunks are under way that the processes have something to do."""
        chunks = iter(lambda: list(itertools.islice(lines, CHUNK)), [])
        pending = collections.deque(self.pool.submit(_encode, chunk) for chunk in itertools.islice(chunks, AHEAD * self.jobs))
        try:
            while pending:
                yield from pending.popleft().result()
                pending.extend(self.pool.submit(_encode, chunk) for chunk in itertools.islice(chunks, 1))
        except BrokenProcessPool:
            raise SystemExit("prepare.py: a process that encodes ended by itself (killed, or out of memory?); "
                             "the same command goes on behind the last shard, --jobs says how many there are") from None
