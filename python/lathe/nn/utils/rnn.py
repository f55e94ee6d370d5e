"""Sequences of several lengths in one tensor."""

import collections

from lathe._core import Tensor
from lathe.errors import UserError


def pad_sequence(sequences, batch_first=False, padding_value=0.0):
    """Sequences (length, ...) side by side, the short ones filled up.

    >>> nn.utils.rnn.pad_sequence([Tensor([1, 2]), Tensor([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]
    """
    sequences = list(sequences)
    longest = max(s.shape[0] for s in sequences)
    rest = [(0, 0)] * (sequences[0].ndim - 1)
    padded = [s.pad(((0, longest - s.shape[0]), *rest), value=padding_value) for s in sequences]
    return padded[0].stack(*padded[1:], dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded batch.

    >>> [s.tolist() for s in nn.utils.rnn.unpad_sequence(Tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)]
    [[1, 2], [3]]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[i, :n] for i, n in enumerate(_numbers(lengths))]


def _numbers(lengths):
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


class PackedSequence(collections.namedtuple("PackedSequence", "data batch_sizes sorted_indices unsorted_indices")):
    """Sequences of several lengths: all first elements, all second ones, and so on, longest sequence first. `padded` and
    `lengths` are the batch in its own order, as the recurrent layers take it."""

    def __new__(cls, data, batch_sizes, sorted_indices=None, unsorted_indices=None, padded=None, lengths=None):
        self = super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)
        self.padded, self.lengths = padded, lengths
        return self

    def to(self, *args, **kwargs):
        """Moved to a device or dtype."""
        return packed(self.padded.to(*args, **kwargs), self.lengths)


def packed(padded, lengths):
    """A batch (batch, length, ...) with its lengths, packed."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    back = sorted(range(len(order)), key=order.__getitem__)
    sizes = [sum(n > t for n in lengths) for t in range(max(lengths))]
    places = [(order[k], t) for t, size in enumerate(sizes) for k in range(size)]
    data = padded[Tensor([i for i, _ in places]), Tensor([t for _, t in places])]
    return PackedSequence(data, Tensor(sizes), Tensor(order), Tensor(back), padded, list(lengths))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """A padded batch and the lengths in it, for a recurrent layer that stops each sequence at its end.

    >>> pack = nn.utils.rnn.pack_padded_sequence(Tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    >>> pack.data.tolist(), pack.batch_sizes.tolist()
    ([1, 3, 2], [2, 1])
    """
    padded, lengths = input if batch_first else input.transpose(0, 1), _numbers(lengths)
    if len(lengths) != padded.shape[0]:
        raise UserError(f"lathe: pack_padded_sequence: {len(lengths)} lengths for a batch of {padded.shape[0]}")
    if min(lengths) < 1 or max(lengths) > padded.shape[1]:
        raise UserError(f"lathe: pack_padded_sequence: lengths {lengths} are outside 1 to {padded.shape[1]}")
    if enforce_sorted and any(a < b for a, b in zip(lengths, lengths[1:])):
        raise UserError(
            f"lathe: pack_padded_sequence: lengths {lengths} do not fall\n  help: enforce_sorted=False takes them in any order"
        )
    return packed(padded, lengths)


def pack_sequence(sequences, enforce_sorted=True):
    """Sequences of several lengths, packed.

    >>> nn.utils.rnn.pack_sequence([Tensor([1, 2]), Tensor([3])]).data.tolist()
    [1, 3, 2]
    """
    sequences = list(sequences)
    return pack_padded_sequence(pad_sequence(sequences, True), [s.shape[0] for s in sequences], True, enforce_sorted)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """A packed batch with the short sequences filled up, and the lengths.

    >>> pack = nn.utils.rnn.pack_sequence([Tensor([1, 2]), Tensor([3])])
    >>> [t.tolist() for t in nn.utils.rnn.pad_packed_sequence(pack, batch_first=True)]
    [[[1, 2], [3, 0]], [2, 1]]
    """
    lengths = sequence.lengths
    longest = max(lengths)
    out = sequence.padded[:, :longest]
    inside = Tensor.arange(longest).reshape(1, -1) < Tensor(lengths).reshape(-1, 1)
    out = inside.reshape(*inside.shape, *[1] * (out.ndim - 2)).where(out, padding_value).cast(out.dtype)
    if total_length is not None:
        if total_length < longest:
            raise UserError(f"lathe: pad_packed_sequence: total_length {total_length} is less than the longest, {longest}")
        out = out.pad(((0, 0), (0, total_length - longest), *[(0, 0)] * (out.ndim - 2)), value=padding_value)
    return out if batch_first else out.transpose(0, 1), Tensor(lengths)


__all__ = ["PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpad_sequence"]
