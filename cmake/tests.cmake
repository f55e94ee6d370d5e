# Every folder tests/<x>/ with a *_test.cpp is one GoogleTest program bin/test_<x> made of all its .cpp files and one
# CTest entry <x>. tests/<x>/tests.cmake, if there, is included first and may set
#   LIBS     folders to link instead of everything: set(LIBS ir base)
#   LABELS   instead of `fast`: set(LABELS slow)
#   SHARDS   number of CTest entries the program is split into, so that they run side by side
#   TIMEOUT  seconds per entry, SERIAL to run alone, ENVIRONMENT for the entries, DEFINITIONS for the compiler
# or add tests of its own with add_test, lathe_test or lathe_script_test. tests/support/*.cpp is linked to all tests
# that link everything.
# Labels: fast (make test-fast), slow (make test), matrix (make test-all).

# Options that a folder does not set are passed empty, which is what their defaults below test for.
if(POLICY CMP0174)
  cmake_policy(SET CMP0174 NEW)
endif()

# Where the sources and the build are, for the tests that include this header: as a definition of the compiler it would
# keep all tests of one clone from using what the compiler's cache has from another.
set(test_generated ${PROJECT_BINARY_DIR}/generated)
configure_file(${PROJECT_SOURCE_DIR}/cmake/test_folders.h.in ${test_generated}/test_folders.h @ONLY)

# lathe_test(<name> FILES ... [LIBS folder or target ...] [LABELS ...] [SHARDS n] [TIMEOUT s] [SERIAL] ...)
function(lathe_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "SHARDS;TIMEOUT" "FILES;LIBS;LABELS;ENVIRONMENT;DEFINITIONS")
  set(target test_${name})
  add_executable(${target} ${arg_FILES} $<TARGET_OBJECTS:lathe_test_strict>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR} ${test_generated})
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${target} PRIVATE lathe_flags GTest::gtest_main)
  if(NOT arg_LIBS)
    set(arg_LIBS all test_support)
    get_property(modules GLOBAL PROPERTY LATHE_MODULES)
    if(modules)
      add_dependencies(${target} ${modules})
    endif()
  endif()
  foreach(lib IN LISTS arg_LIBS)
    if(TARGET lathe_${lib})
      target_link_libraries(${target} PRIVATE lathe_${lib})
    else()
      target_link_libraries(${target} PRIVATE ${lib})
    endif()
  endforeach()
  lathe_use_pch(${target} lathe_test_pch)

  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  if("fast" IN_LIST arg_LABELS)
    add_dependencies(fast_tests ${target})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(entry ${name})
    set(environment ${arg_ENVIRONMENT})
    if(arg_SHARDS GREATER 1)
      set(entry ${name}.${shard})
      list(APPEND environment GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${shard})
    endif()
    add_test(NAME ${entry} COMMAND ${target} --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${entry} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
      RUN_SERIAL ${arg_SERIAL} ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

# lathe_script_test(<name> COMMAND ... [LABELS ...] [TIMEOUT s]): any command; exit status 77 means skipped.
function(lathe_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "LATHE_CHECK=strict")
endfunction()

# A function, so that what one tests.cmake sets does not reach the next.
function(lathe_test_folder name)
  set(folder ${PROJECT_SOURCE_DIR}/tests/${name})
  foreach(variable LIBS LABELS SHARDS TIMEOUT SERIAL ENVIRONMENT DEFINITIONS)
    unset(${variable})
  endforeach()
  if(EXISTS ${folder}/tests.cmake)
    include(${folder}/tests.cmake)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/tests.cmake)
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cpp)
  if(tests)
    file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cpp)
    set(serial_word "")
    if(SERIAL)
      set(serial_word SERIAL)
    endif()
    lathe_test(${name} ${serial_word} FILES ${files} LIBS ${LIBS} LABELS ${LABELS} SHARDS ${SHARDS} TIMEOUT ${TIMEOUT}
      ENVIRONMENT ${ENVIRONMENT} DEFINITIONS ${DEFINITIONS})
  endif()
endfunction()

if(NOT GTest_FOUND)
  message(WARNING "lathe: GoogleTest not found, so no tests are built; scripts/setup.sh installs it")
  return()
endif()

# The programs of the label fast and what they start, for builds that run nothing else.
add_custom_target(fast_tests)
foreach(tool tool_lathe tool_lathe-worker tool_lathe-scenario)
  if(TARGET ${tool})
    add_dependencies(fast_tests ${tool})
  endif()
endforeach()

lathe_make_pch(lathe_test_pch <gtest/gtest.h> <sstream>)
if(LATHE_PCH)
  target_link_libraries(lathe_test_pch PRIVATE GTest::gtest)
endif()

# A kernel that differs from REF fails every test that runs it.
add_library(lathe_test_strict OBJECT ${PROJECT_SOURCE_DIR}/tests/strict_check.cpp)
target_link_libraries(lathe_test_strict PRIVATE lathe_flags)

file(GLOB support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
if(support)
  add_library(lathe_test_support STATIC ${support})
  target_include_directories(lathe_test_support PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR} ${test_generated})
  target_link_libraries(lathe_test_support PRIVATE lathe_flags PUBLIC lathe_all GTest::gtest)
else()
  add_library(lathe_test_support INTERFACE)
endif()

file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*_test.cpp ${PROJECT_SOURCE_DIR}/tests/*/tests.cmake)
set(folders "")
foreach(file IN LISTS files)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  list(APPEND folders ${folder})
endforeach()
list(REMOVE_DUPLICATES folders)
foreach(folder IN LISTS folders)
  lathe_test_folder(${folder})
endforeach()
