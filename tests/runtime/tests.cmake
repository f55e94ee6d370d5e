set(LIBS runtime)
set(LABELS fast fuzz)
