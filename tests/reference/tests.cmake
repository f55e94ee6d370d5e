set(LIBS reference ir base)
