# Candidates are compiled by processes of their own; LATHE_BEAM looks for lathe-worker beside the program.
set(TIMEOUT 900)
