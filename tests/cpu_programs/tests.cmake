# The kernels of codegen's own tests, run for real.
lathe_test(cpu_programs
  FILES ${CMAKE_CURRENT_LIST_DIR}/programs.cpp ${PROJECT_SOURCE_DIR}/tests/codegen/kernels.cpp
        ${PROJECT_SOURCE_DIR}/tests/cpu/harness.cpp
  LIBS codegen reference backend_cpu backend_null backend_disk LABELS slow
  DEFINITIONS LATHE_HAVE_LLVM=$<BOOL:${LATHE_FOUND_llvm}>)
