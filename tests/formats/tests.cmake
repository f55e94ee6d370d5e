# The fuzzers over damaged files are short in the fast set; `make fuzz` runs them longer and from a new seed.
set(LABELS fast fuzz)
