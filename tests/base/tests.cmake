set(LIBS base)
