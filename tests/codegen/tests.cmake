set(LIBS codegen reference)
set(LABELS fast golden fuzz)
