set(LIBS engine)
set(ENVIRONMENT LATHE_CACHE=off)
