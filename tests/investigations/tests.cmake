# `lathe investigate` and `lathe mcp`, driven from outside by Python, with the official MCP client where it is there; and the
# parts that are no program in C++.
if(NOT TARGET lathe_investigations)
  return()
endif()
set(LIBS investigations dep_json)
find_program(LATHE_TEST_PYTHON NAMES python3)
set(investigate_python ${LATHE_TEST_PYTHON})
if(EXISTS ${PROJECT_SOURCE_DIR}/.venv-python/bin/python)
  set(investigate_python ${PROJECT_SOURCE_DIR}/.venv-python/bin/python)
endif()
if(TARGET tool_lathe AND investigate_python)
  lathe_script_test(investigations_sessions LABELS slow TIMEOUT 900
    COMMAND ${investigate_python} ${CMAKE_CURRENT_LIST_DIR}/sessions_test.py $<TARGET_FILE:tool_lathe>)
  lathe_script_test(investigations_seeds LABELS slow TIMEOUT 900
    COMMAND ${investigate_python} ${CMAKE_CURRENT_LIST_DIR}/seeds_test.py $<TARGET_FILE:tool_lathe>)
  lathe_script_test(investigations_mcp LABELS slow TIMEOUT 600
    COMMAND ${investigate_python} ${CMAKE_CURRENT_LIST_DIR}/mcp_test.py $<TARGET_FILE:tool_lathe>)
  lathe_script_test(investigations_page LABELS slow TIMEOUT 300
    COMMAND ${investigate_python} ${CMAKE_CURRENT_LIST_DIR}/page_test.py $<TARGET_FILE:tool_lathe>)
endif()
