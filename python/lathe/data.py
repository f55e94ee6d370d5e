"""Batches for training, prepared ahead by threads."""

import collections
import concurrent.futures
import random

from lathe._core import Tensor, UserError


def _gather(dataset, indices):
    if isinstance(dataset, (tuple, list)) and dataset and isinstance(dataset[0], Tensor):
        index = Tensor(indices)
        return tuple(t[index.to(t.device)].realize() for t in dataset)
    return [dataset[i] for i in indices]


def _stack(items):
    """Rows as one batch: tuples and dicts by part, numbers and arrays stacked."""
    first = items[0]
    if isinstance(first, (tuple, list)):
        return tuple(_stack([item[i] for item in items]) for i in range(len(first)))
    if isinstance(first, dict):
        return {key: _stack([item[key] for item in items]) for key in first}
    if isinstance(first, Tensor):
        return Tensor.stack(items)
    return Tensor(list(items))


class DataLoader:
    """Batches of a dataset: a tuple of tensors with one row per sample, or anything with `len` and `[i]`. The order
    depends on the seed and the epoch alone, never on the number of workers. `state_dict` says where a loader is, and
    `load_state_dict` puts another there. Of several processes, each gets a part of every epoch.

    >>> x, y = Tensor.arange(6).reshape(6, 1), Tensor.arange(6)
    >>> [batch[1].tolist() for batch in DataLoader((x, y), batch_size=4)]
    [[0, 1, 2, 3], [4, 5]]
    """

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=False,
        num_workers=0,
        prefetch=2,
        drop_last=False,
        seed=0,
        collate=_stack,
        process=0,
        processes=1,
    ):
        if batch_size < 1 or num_workers < 0 or not 0 <= process < processes:
            raise UserError(
                f"lathe: DataLoader: batches of {batch_size}, {num_workers} workers, process {process} of {processes}"
            )
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.num_workers, self.prefetch, self.drop_last = num_workers, prefetch, drop_last
        self.seed, self.collate, self.process, self.processes = seed, collate, process, processes
        self.epoch = self.batch = self._resume = 0

    def _samples(self):
        tensors = isinstance(self.dataset, (tuple, list)) and self.dataset and isinstance(self.dataset[0], Tensor)
        return len(self.dataset[0]) if tensors else len(self.dataset)

    def __len__(self):
        own = len(range(self.process, self._samples(), self.processes))
        full, rest = divmod(own, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def _batches(self):
        order = list(range(self._samples()))
        if self.shuffle:
            random.Random(f"{self.seed}:{self.epoch}").shuffle(order)
        order = order[self.process :: self.processes]
        return [order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(len(self))]

    def _make(self, indices):
        rows = _gather(self.dataset, indices)
        return rows if isinstance(rows, tuple) else self.collate(rows)

    def _prepared(self, batches):
        if self.num_workers == 0:
            yield from map(self._make, batches)
            return
        pool = concurrent.futures.ThreadPoolExecutor(self.num_workers)
        try:
            ahead = collections.deque()
            for indices in batches:
                ahead.append(pool.submit(self._make, indices))
                if len(ahead) > self.prefetch + self.num_workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def __iter__(self):
        """The batches of an epoch, from its beginning; after load_state_dict from there on."""
        first, self._resume = self._resume, 0
        self.batch = first
        for batch in self._prepared(self._batches()[first:]):
            self.batch += 1
            yield batch
        self.epoch, self.batch = self.epoch + 1, 0

    def state_dict(self):
        """Where the loader is: the epoch, and the batches of it that were given."""
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state):
        """Goes on where another loader was."""
        self.epoch, self.batch = state["epoch"], state["batch"]
        self._resume = self.batch


__all__ = ["DataLoader"]
