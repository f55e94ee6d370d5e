# Gigabytes of memory: runs alone, for seconds.
set(LABELS slow)
set(SERIAL ON)
