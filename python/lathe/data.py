"""Batches for training, prepared ahead by threads."""

import collections
import concurrent.futures
import random

from lathe._core import Tensor, UserError


def _are_columns(dataset):
    """Whether it is a tuple of tensors with one row per sample; other lists are lists of samples."""
    return isinstance(dataset, (tuple, list)) and len(dataset) > 0 and isinstance(dataset[0], Tensor)


def _gather(dataset, indices):
    if _are_columns(dataset):
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
        *,
        sampler=None,
        batch_sampler=None,
        collate_fn=None,
        prefetch_factor=None,
        pin_memory=False,
        timeout=0,
        worker_init_fn=None,
        generator=None,
        persistent_workers=False,
    ):
        # Of PyTorch's arguments the last five mean nothing here: workers are threads, and memory is the library's.
        if sampler is not None and shuffle:
            raise UserError("lathe: DataLoader: a sampler says the order, and so does shuffle\n  help: leave one of them out")
        collate, prefetch = collate if collate_fn is None else collate_fn, prefetch if prefetch_factor is None else prefetch_factor
        batch_size = 1 if batch_size is None else batch_size
        if batch_size < 1 or num_workers < 0 or not 0 <= process < processes:
            raise UserError(
                f"lathe: DataLoader: batches of {batch_size}, {num_workers} workers, process {process} of {processes}"
            )
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.num_workers, self.prefetch, self.drop_last = num_workers, prefetch, drop_last
        self.seed, self.collate, self.process, self.processes = seed, collate, process, processes
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.epoch = self.batch = self._resume = 0

    def _samples(self):
        if self.sampler is not None:
            return len(self.sampler)
        return len(self.dataset[0]) if _are_columns(self.dataset) else len(self.dataset)

    def __len__(self):
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        own = len(range(self.process, self._samples(), self.processes))
        full, rest = divmod(own, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def _batches(self):
        if self.batch_sampler is not None:
            return [list(batch) for batch in self.batch_sampler]
        order = list(range(self._samples()) if self.sampler is None else self.sampler)
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

    def _stream(self):
        """Batches of a dataset that only has an order."""
        rows = []
        for row in self.dataset:
            rows.append(row)
            if len(rows) == self.batch_size:
                yield self.collate(rows)
                rows = []
        if rows and not self.drop_last:
            yield self.collate(rows)

    def __iter__(self):
        """The batches of an epoch, from its beginning; after load_state_dict from there on."""
        if not hasattr(self.dataset, "__getitem__"):
            yield from self._stream()
            return
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
