set(LIBS rules)
