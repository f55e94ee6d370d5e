# `lathe serve` and `lathe chat`, driven from outside by Python's standard library, and by the openai package where it is there.
find_program(LATHE_TEST_PYTHON NAMES python3)
set(serve_python ${LATHE_TEST_PYTHON})
if(EXISTS ${PROJECT_SOURCE_DIR}/.venv-python/bin/python)
  set(serve_python ${PROJECT_SOURCE_DIR}/.venv-python/bin/python)
endif()
if(TARGET tool_lathe AND TARGET lathe_serve AND serve_python)
  lathe_script_test(serve LABELS slow TIMEOUT 600
    COMMAND ${serve_python} ${CMAKE_CURRENT_LIST_DIR}/serve_test.py $<TARGET_FILE:tool_lathe>)
endif()
