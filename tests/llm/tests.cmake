set(LIBS apps)
