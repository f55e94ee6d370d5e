set(LIBS schedule reference)
