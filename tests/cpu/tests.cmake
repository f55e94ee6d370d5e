set(LIBS backend_cpu)
