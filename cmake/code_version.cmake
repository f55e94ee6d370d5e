# Writes a source file that holds a checksum of everything machine code depends on: what the search store is keyed by.
#   cmake -DROOT=<repository> -DOUTPUT=<file> -P code_version.cmake
# Included from CMakeLists.txt it defines lathe_code_version(<target>), which does that when one of the files changed.
set(LATHE_CODE_FOLDERS ir rewrite rules target pipeline codegen render backends)

function(lathe_code_files root result)
  set(patterns "")
  foreach(folder IN LISTS LATHE_CODE_FOLDERS)
    list(APPEND patterns ${root}/src/${folder}/*.cpp ${root}/src/${folder}/*.h ${root}/src/${folder}/*.def)
  endforeach()
  set(look_again CONFIGURE_DEPENDS)
  if(CMAKE_SCRIPT_MODE_FILE)
    set(look_again "")
  endif()
  file(GLOB_RECURSE files ${look_again} ${patterns})
  list(SORT files)
  set(${result} ${files} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  lathe_code_files(${ROOT} files)
  set(sums "")
  foreach(file IN LISTS files)
    file(SHA256 ${file} sum)
    string(APPEND sums ${sum})
  endforeach()
  string(SHA256 all "${sums}")
  string(SUBSTRING ${all} 0 24 version)
  file(WRITE ${OUTPUT} "namespace lathe::search {\nextern const char* const kCodeVersion;\n"
    "const char* const kCodeVersion = \"${version}\";\n}  // namespace lathe::search\n")
  return()
endif()

function(lathe_code_version target)
  lathe_code_files(${PROJECT_SOURCE_DIR} files)
  set(output ${PROJECT_BINARY_DIR}/code_version.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUTPUT=${output} -P ${PROJECT_SOURCE_DIR}/cmake/code_version.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/code_version.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
