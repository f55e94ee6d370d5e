set(LIBS ir base)
