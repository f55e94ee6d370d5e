set(LIBS schedule codegen reference)
set(LABELS fast golden fuzz)
