# The Python package: the native module lathe._core (python/bindings) beside python/lathe. In a wheel's build the
# interpreter is given; elsewhere LATHE_PYTHON names one that has nanobind, by default that of .venv-python, which
# scripts/setup.sh python makes. Without one the module is left out.
set(LATHE_PYTHON "" CACHE STRING "Python with nanobind to build the bindings for; empty: .venv-python's if there; OFF: none")

if(SKBUILD)
  set(python_program ${Python_EXECUTABLE})
elseif(LATHE_PYTHON STREQUAL "OFF")
  set(python_program "")
elseif(LATHE_PYTHON)
  set(python_program ${LATHE_PYTHON})
else()
  set(python_program ${PROJECT_SOURCE_DIR}/.venv-python/bin/python)
  if(NOT EXISTS ${python_program})
    set(python_program "")
  endif()
endif()

set(LATHE_FOUND_python FALSE)
if(python_program OR SKBUILD)
  if(python_program)
    set(Python_EXECUTABLE ${python_program})
  endif()
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind CONFIG QUIET)
    set(LATHE_FOUND_python ${nanobind_FOUND})
  endif()
endif()
if(NOT LATHE_FOUND_python)
  message(STATUS "lathe: no Python with nanobind, so the Python package is not built; scripts/setup.sh python makes one")
  return()
endif()

# Docstrings come from a text file and the op tables.
set(docs_folder ${PROJECT_BINARY_DIR}/generated/python)
set(docs_sources ${PROJECT_SOURCE_DIR}/python/bindings/docs.txt ${PROJECT_SOURCE_DIR}/include/lathe/unary.def
  ${PROJECT_SOURCE_DIR}/include/lathe/binary.def)
add_custom_command(OUTPUT ${docs_folder}/docs.inc
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/generate.py docs ${docs_folder}/docs.inc
  DEPENDS ${PROJECT_SOURCE_DIR}/python/generate.py ${docs_sources} VERBATIM)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/bindings/*.cpp)
nanobind_add_module(lathe_python NB_STATIC NOMINSIZE ${sources} ${docs_folder}/docs.inc)
target_include_directories(lathe_python PRIVATE ${docs_folder})
target_link_libraries(lathe_python PRIVATE lathe lathe_flags)
# As objects, not as a library: that would bring the folders below it a second time.
if(TARGET lathe_apps)
  target_sources(lathe_python PRIVATE $<TARGET_OBJECTS:lathe_apps>)
  target_link_libraries(lathe_python PRIVATE ${LATHE_UTF8PROC_LIBRARY})
  set(have_llm 1)
else()
  set(have_llm 0)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/python/bindings/llm.cpp PROPERTIES COMPILE_DEFINITIONS LATHE_HAVE_LLM=${have_llm})
foreach(header_owner nanobind-static lathe_python)  # warnings in nanobind's and Python's headers are theirs
  get_target_property(folders ${header_owner} INCLUDE_DIRECTORIES)
  target_include_directories(lathe_python SYSTEM PRIVATE ${folders} ${Python_INCLUDE_DIRS})
endforeach()
target_compile_options(lathe_python PRIVATE -g0)  # templates of bindings have more symbols than code
set_target_properties(lathe_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/lathe)
get_property(modules GLOBAL PROPERTY LATHE_MODULES)
if(modules)
  add_dependencies(lathe_python ${modules})
endif()

# build/<preset>/python is what PYTHONPATH needs: links to the package's files beside the module.
add_custom_command(TARGET lathe_python POST_BUILD
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/generate.py link ${PROJECT_BINARY_DIR}/python/lathe VERBATIM)


# What editors and type checkers read of the module, with the methods that the package adds to its classes.
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/lathe/_core.pyi
  COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_BINARY_DIR}/python
    ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/stubs.py ${PROJECT_BINARY_DIR}/python/lathe
  DEPENDS lathe_python ${PROJECT_SOURCE_DIR}/python/stubs.py VERBATIM)
add_custom_target(lathe_python_stubs ALL DEPENDS ${PROJECT_BINARY_DIR}/python/lathe/_core.pyi)

if(SKBUILD)
  install(FILES ${PROJECT_BINARY_DIR}/python/lathe/_core.pyi ${PROJECT_BINARY_DIR}/python/lathe/_typed.pyi DESTINATION lathe COMPONENT python)
  install(FILES ${PROJECT_BINARY_DIR}/python/lathe/nn/_typed.pyi ${PROJECT_BINARY_DIR}/python/lathe/nn/_typed_losses.pyi
    DESTINATION lathe/nn COMPONENT python)
  install(TARGETS lathe_python LIBRARY DESTINATION lathe COMPONENT python)
  if(modules)
    install(TARGETS ${modules} LIBRARY DESTINATION lathe COMPONENT python)
  endif()
  if(TARGET tool_lathe-worker)
    add_dependencies(lathe_python tool_lathe-worker)  # the search runs kernels in it
    install(TARGETS tool_lathe-worker RUNTIME DESTINATION lathe COMPONENT python)
    add_dependencies(lathe_python tool_lathe)  # the command `lathe` of the package runs it
    install(TARGETS tool_lathe RUNTIME DESTINATION lathe COMPONENT python)
    add_dependencies(lathe_python tool_lathe-scenario)  # investigations run commands in it
    install(TARGETS tool_lathe-scenario RUNTIME DESTINATION lathe COMPONENT python)
  endif()
endif()
