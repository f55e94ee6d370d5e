# The fuzzer of writes runs longer and from a new seed by `make fuzz`.
set(LABELS fast fuzz)
