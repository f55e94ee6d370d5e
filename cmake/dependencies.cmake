# Libraries from outside. Only fmt and threads are required; each optional one becomes an interface target
# lathe_dep_<name> that is empty when it was not found, and defines LATHE_HAVE_<NAME>=1 when it was.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

function(lathe_optional_dep name found)
  string(TOUPPER ${name} upper)
  add_library(lathe_dep_${name} INTERFACE)
  if(found)
    target_compile_definitions(lathe_dep_${name} INTERFACE LATHE_HAVE_${upper}=1)
    target_link_libraries(lathe_dep_${name} INTERFACE ${ARGN})
  else()
    target_compile_definitions(lathe_dep_${name} INTERFACE LATHE_HAVE_${upper}=0)
  endif()
  set(LATHE_FOUND_${name} "${found}" PARENT_SCOPE)
endfunction()

find_package(ZLIB QUIET)
lathe_optional_dep(zlib "${ZLIB_FOUND}" ZLIB::ZLIB)

find_package(nlohmann_json QUIET)
lathe_optional_dep(json "${nlohmann_json_FOUND}" $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)

find_path(LATHE_UTF8PROC_INCLUDE utf8proc.h)
find_library(LATHE_UTF8PROC_LIBRARY NAMES libutf8proc.a utf8proc)
if(LATHE_UTF8PROC_INCLUDE AND LATHE_UTF8PROC_LIBRARY)
  set(utf8proc_found TRUE)
else()
  set(utf8proc_found FALSE)
endif()
lathe_optional_dep(utf8proc ${utf8proc_found} ${LATHE_UTF8PROC_LIBRARY})
if(utf8proc_found AND LATHE_UTF8PROC_LIBRARY MATCHES "\\.a$")
  target_compile_definitions(lathe_dep_utf8proc INTERFACE UTF8PROC_STATIC)
endif()

# As header alone, or as header and library, which distributions build with everything that it can use.
find_path(LATHE_HTTPLIB_INCLUDE httplib.h)
find_library(LATHE_HTTPLIB_LIBRARY cpp-httplib)
if(LATHE_HTTPLIB_INCLUDE AND NOT (SKBUILD AND LATHE_HTTPLIB_LIBRARY))  # a wheel brings no libraries of the system
  lathe_optional_dep(httplib TRUE Threads::Threads)
  if(LATHE_HTTPLIB_LIBRARY)
    target_link_libraries(lathe_dep_httplib INTERFACE ${LATHE_HTTPLIB_LIBRARY})
    target_compile_definitions(lathe_dep_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
      CPPHTTPLIB_BROTLI_SUPPORT)
  endif()
else()
  lathe_optional_dep(httplib FALSE)
endif()

find_package(SQLite3 QUIET)
lathe_optional_dep(sqlite "${SQLite3_FOUND}" $<BUILD_INTERFACE:SQLite::SQLite3>)

find_package(CLI11 QUIET)
lathe_optional_dep(cli11 "${CLI11_FOUND}" $<BUILD_INTERFACE:CLI11::CLI11>)

find_path(LATHE_Z3_INCLUDE z3.h)
find_library(LATHE_Z3_LIBRARY z3)
if(LATHE_Z3_INCLUDE AND LATHE_Z3_LIBRARY)
  set(z3_found TRUE)
else()
  set(z3_found FALSE)
endif()
lathe_optional_dep(z3 ${z3_found} z3)

# LLVM through its C interface only: one header folder and one shared library, no LLVM CMake package needed.
# The first version of the list that has both is taken.
add_library(lathe_dep_llvm INTERFACE)
set(LATHE_FOUND_llvm FALSE)
if(LATHE_LLVM)
  foreach(version 19 20 21 18)
    if(NOT LATHE_FOUND_llvm)
      find_path(LATHE_LLVM${version}_INCLUDE llvm-c/LLJIT.h PATHS /usr/lib/llvm-${version}/include
        /usr/include/llvm-c-${version} NO_DEFAULT_PATH)
      find_library(LATHE_LLVM${version}_LIBRARY NAMES LLVM-${version} LLVM
        PATHS /usr/lib/llvm-${version}/lib NO_DEFAULT_PATH)
      if(LATHE_LLVM${version}_INCLUDE AND LATHE_LLVM${version}_LIBRARY)
        set(LATHE_FOUND_llvm ${version})
        target_include_directories(lathe_dep_llvm SYSTEM INTERFACE ${LATHE_LLVM${version}_INCLUDE})
        target_link_libraries(lathe_dep_llvm INTERFACE ${LATHE_LLVM${version}_LIBRARY})
      endif()
    endif()
  endforeach()
endif()

if(LATHE_TESTS)
  find_package(GTest QUIET)
endif()

function(lathe_report)
  set(words "")
  foreach(dep llvm z3 zlib json utf8proc httplib sqlite cli11)
    if(LATHE_FOUND_${dep})
      list(APPEND words "${dep} ${LATHE_FOUND_${dep}}")
    else()
      list(APPEND words "${dep} no")
    endif()
  endforeach()
  list(JOIN words ", " words)
  get_property(backends GLOBAL PROPERTY LATHE_BACKENDS)
  list(JOIN backends " " backends)
  message(STATUS "lathe: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, linker ${LATHE_LINKER}, gtest ${GTest_FOUND}")
  message(STATUS "lathe: found ${words}")
  message(STATUS "lathe: backends ${backends}")
endfunction()
