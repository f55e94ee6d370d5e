# The graphs of the op suite, compiled once more for these.
if(NOT TARGET lathe_test_op_cases)
  add_library(lathe_test_op_cases STATIC ${PROJECT_SOURCE_DIR}/tests/ops/cases.cpp)
  target_include_directories(lathe_test_op_cases PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(lathe_test_op_cases PRIVATE lathe_flags)
endif()
set(LIBS test_op_cases all test_support)
set(LABELS slow replay golden)
