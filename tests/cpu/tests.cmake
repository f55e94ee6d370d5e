# Compiling every case by the C compiler takes most of the time, so the quick entry leaves those out.
set(LIBS codegen reference backend_cpu backend_null backend_disk)
set(ENVIRONMENT "GTEST_FILTER=-*TheCCompiler*")
set(DEFINITIONS LATHE_HAVE_LLVM=$<BOOL:${LATHE_FOUND_llvm}>)
add_test(NAME cpu.c_compiler COMMAND test_cpu --gtest_brief=1 --gtest_filter=*TheCCompiler*
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(cpu.c_compiler PROPERTIES LABELS slow TIMEOUT 600)
