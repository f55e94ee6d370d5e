set(LIBS backend_ref)
