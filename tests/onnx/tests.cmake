# A thousand small models, each with kernels of its own: split, so that they run side by side.
set(LABELS slow)
set(SHARDS 4)
