"""Datasets and their batches, under `torch.utils.data`'s names."""

import bisect
import random

from lathe._core import Tensor
from lathe.data import DataLoader
from lathe.errors import UserError


class Dataset:
    """Samples by number: a class of one's own has `__getitem__` and `__len__`.

    >>> class Squares(lathe.utils.data.Dataset):
    ...     def __len__(self): return 3
    ...     def __getitem__(self, i): return i * i
    >>> [batch.tolist() for batch in lathe.utils.data.DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4]]
    """

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples one after the other: a class of one's own has `__iter__`."""


class TensorDataset(Dataset):
    """Rows of tensors that belong together.

    >>> lathe.utils.data.TensorDataset(Tensor([1.0, 2.0]), Tensor([0, 1]))[1][1].item()
    1
    """

    def __init__(self, *tensors):
        if len({t.shape[0] for t in tensors}) != 1:
            raise UserError(f"lathe: TensorDataset: the tensors have {[t.shape[0] for t in tensors]} rows\n  help: they need one number of rows")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """Some samples of a dataset.

    >>> lathe.utils.data.Subset([5, 6, 7], [2])[0]
    7
    """

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, list(indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other.

    >>> lathe.utils.data.ConcatDataset([[1], [2, 3]])[2]
    3
    """

    def __init__(self, datasets):
        self.datasets, self.ends = list(datasets), []
        for dataset in self.datasets:
            self.ends.append((self.ends[-1] if self.ends else 0) + len(dataset))

    def __getitem__(self, index):
        index = index + len(self) if index < 0 else index
        which = bisect.bisect_right(self.ends, index)
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self.datasets[which][index - (self.ends[which - 1] if which else 0)]

    def __len__(self):
        return self.ends[-1] if self.ends else 0


def random_split(dataset, lengths, generator=None, seed=0):
    """A dataset in parts of these lengths (or shares of 1), in an order of the seed.

    >>> [len(part) for part in lathe.utils.data.random_split(range(10), [0.8, 0.2])]
    [8, 2]
    """
    count = len(dataset)
    if sum(lengths) <= 1 + 1e-9 and any(isinstance(n, float) for n in lengths):
        lengths = [int(count * share) for share in lengths]
        for i in range(count - sum(lengths)):
            lengths[i % len(lengths)] += 1
    if sum(lengths) != count:
        raise UserError(f"lathe: random_split: parts of {list(lengths)} are not the {count} samples")
    order, at, parts = list(range(count)), 0, []
    random.Random(seed).shuffle(order)
    for length in lengths:
        parts.append(Subset(dataset, order[at : at + length]))
        at += length
    return parts


class Sampler:
    """The numbers of samples in an order: a class of one's own has `__iter__` and `__len__`."""

    def __init__(self, data_source=None):
        self.data_source = data_source

    def __len__(self):
        return len(self.data_source)


class SequentialSampler(Sampler):
    """In order.

    >>> list(lathe.utils.data.SequentialSampler([5, 6]))
    [0, 1]
    """

    def __iter__(self):
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """In random order, another each time.

    >>> sorted(lathe.utils.data.RandomSampler([5, 6]))
    [0, 1]
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        super().__init__(data_source)
        self.replacement, self.count = replacement, num_samples
        self._random = random.Random(0)

    def __iter__(self):
        count, wanted = len(self.data_source), self.count or len(self.data_source)
        if self.replacement:
            return iter(self._random.choices(range(count), k=wanted))
        return iter(self._random.sample(range(count), k=min(wanted, count)))

    def __len__(self):
        return self.count or len(self.data_source)


class WeightedRandomSampler(Sampler):
    """Numbers drawn by their weights.

    >>> list(lathe.utils.data.WeightedRandomSampler([0.0, 1.0], 2))
    [1, 1]
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        self.weights = weights.tolist() if isinstance(weights, Tensor) else list(weights)
        self.count, self._random = num_samples, random.Random(0)

    def __iter__(self):
        return iter(self._random.choices(range(len(self.weights)), self.weights, k=self.count))

    def __len__(self):
        return self.count


def default_collate(batch):
    """Samples as one batch: tuples and dicts by part, numbers and arrays stacked.

    >>> lathe.utils.data.default_collate([(1, 2.0), (3, 4.0)])[0].tolist()
    [1, 3]
    """
    from lathe.data import _stack

    return _stack(list(batch))


__all__ = ["ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "Subset",
           "TensorDataset", "WeightedRandomSampler", "default_collate", "random_split"]  # fmt: skip
