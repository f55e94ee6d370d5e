set(LIBS render)
