set(LIBS apps)
set(LABELS fast fuzz)
