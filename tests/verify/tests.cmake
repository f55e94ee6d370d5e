set(LIBS verify)
