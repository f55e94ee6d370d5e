set(LIBS schedule codegen)
set(LABELS fast golden)
