# The Python package against PyTorch and numpy: one entry per file. Without the environment they say so and are skipped.
file(GLOB python_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test_*.py)
if(TARGET lathe_python)
  foreach(file IN LISTS python_tests)
    get_filename_component(name ${file} NAME_WE)
    string(REPLACE "test_" "python." name ${name})
    lathe_script_test(${name} LABELS slow TIMEOUT 600 COMMAND ${CMAKE_COMMAND} -E env
      PYTHONPATH=${PROJECT_BINARY_DIR}/python LATHE_CACHE=${PROJECT_BINARY_DIR}/python_cache
      ${Python_EXECUTABLE} -m pytest -q -p no:cacheprovider ${file})
  endforeach()
else()
  lathe_script_test(python.all LABELS slow COMMAND sh -c
    "echo 'skipped: no Python environment with nanobind; scripts/setup.sh python makes one'; exit 77")
endif()
