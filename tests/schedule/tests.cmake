set(LIBS schedule)
