# LLVM in a module of its own, loaded on first use; without LLVM the device uses the system's C compiler.
if(LATHE_FOUND_llvm)
  lathe_module(llvm FROM ${CMAKE_CURRENT_LIST_DIR}/llvm LIBS lathe_dep_llvm)
  add_dependencies(${BACKEND} lathe_module_llvm)
endif()
