set(LIBS rules)
set(LABELS fast fuzz)
