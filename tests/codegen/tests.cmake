set(LIBS codegen reference)
