# The tests run the program itself, which the default target builds beside them.
if(TARGET tool_lathe)
  set(DEFINITIONS LATHE_PROGRAM="$<TARGET_FILE:tool_lathe>")
endif()
set(LIBS base dep_json)
