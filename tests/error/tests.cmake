# The texts are in refusals.txt; make golden writes it anew. Rows about the command line run the program itself.
set(LABELS fast golden)
if(TARGET tool_lathe)
  set(DEFINITIONS LATHE_PROGRAM="$<TARGET_FILE:tool_lathe>")
endif()
