# LLVM is loaded only when a kernel has to be compiled with it: linking it would cost every program 15 ms of start-up.
if(LATHE_FOUND_llvm)
  lathe_module(llvm FROM ${CMAKE_CURRENT_LIST_DIR}/llvm LIBS lathe_dep_llvm)
endif()
target_link_libraries(${BACKEND} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
