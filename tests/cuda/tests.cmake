# The kernels that codegen's tests use, compiled once more for these.
if(NOT TARGET lathe_test_kernels)
  add_library(lathe_test_kernels STATIC ${PROJECT_SOURCE_DIR}/tests/codegen/kernels.cpp)
  target_include_directories(lathe_test_kernels PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(lathe_test_kernels PRIVATE lathe_flags PUBLIC lathe_codegen)
endif()
set(LIBS test_kernels schedule codegen reference backend_cuda runtime render)
set(LABELS slow golden)
