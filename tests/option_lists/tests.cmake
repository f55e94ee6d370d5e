# Kernels of the op suite and of nets: the graphs are those of ops and replay, compiled once more for these.
if(NOT TARGET lathe_test_op_graphs)
  add_library(lathe_test_op_graphs STATIC ${PROJECT_SOURCE_DIR}/tests/ops/cases.cpp
    ${PROJECT_SOURCE_DIR}/tests/replay/kernels_of.cpp)
  target_include_directories(lathe_test_op_graphs PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
  target_link_libraries(lathe_test_op_graphs PRIVATE lathe_flags)
endif()
set(LIBS test_op_graphs all test_support)
set(LABELS slow fuzz)
