set(LIBS codegen)
set(TIMEOUT 900)
