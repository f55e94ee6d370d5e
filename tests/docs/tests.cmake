# Examples in the documentation are programs: every block of C++ in README.md, CONTRIBUTING.md and docs/ is built and must
# exit with 0. (Blocks of other kinds: tests/python/test_docs.py.)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/doc_examples.py ${PROJECT_BINARY_DIR}/doc_examples
  OUTPUT_VARIABLE examples OUTPUT_STRIP_TRAILING_WHITESPACE)
file(GLOB_RECURSE pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md
  ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${pages})
string(REPLACE "\n" ";" examples "${examples}")
foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  lathe_program(doc_${name} doc_${name} ${example})
  lathe_script_test(docs.${name} COMMAND doc_${name} LABELS slow)
endforeach()
