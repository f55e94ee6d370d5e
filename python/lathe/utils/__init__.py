"""`torch.utils`' names: batches and checkpointing."""

from lathe.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
