# Options, compiler flags and tool choices shared by every target.
include(CheckLinkerFlag)
include(GNUInstallDirs)

option(LATHE_LLVM "Build the LLVM module of the CPU device when LLVM is found" ON)
option(LATHE_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(LATHE_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(LATHE_FAULTS "Build in the faults of src/base/faults.def, for lathe faults: never for use" OFF)
option(LATHE_PCH "Precompile the standard headers most files use" ON)
set(LATHE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# In a header of its own, which few files include: so this build shares its compiled files with the others.
configure_file(${PROJECT_SOURCE_DIR}/cmake/planted_config.h.in ${PROJECT_BINARY_DIR}/generated/base/planted_config.h)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the static libraries also end up in loadable modules
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # not -fPIE, so that programs can share a precompiled header with libraries
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# RelWithDebInfo keeps asserts and line tables only: full debug information doubles build time and size.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# One flag list for the whole tree. Contraction is off because the two CPU printers and REF must agree bit for
# bit with what the IR says; fast-math is never used for the same reason.
add_library(lathe_flags INTERFACE)
target_compile_options(lathe_flags INTERFACE -ffp-contract=off -fno-math-errno -Wall -Wextra -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough -Wundef -Wcast-qual)
if(LATHE_WERROR)
  target_compile_options(lathe_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These report false positives when GCC 12 inlines libstdc++; the clang build and the sanitizers find the true ones.
  target_compile_options(lathe_flags INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-maybe-uninitialized -Wno-restrict)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(lathe_flags INTERFACE -Wno-dangling-reference)
  endif()
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(lathe_flags INTERFACE -Wshadow-uncaptured-local)
endif()
if(LATHE_SANITIZE)
  add_compile_options(-fsanitize=${LATHE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LATHE_SANITIZE})
endif()

# A quick linker when there is one; GNU ld otherwise.
set(LATHE_LINKER "default")
foreach(linker mold lld)
  if(LATHE_LINKER STREQUAL "default")
    check_linker_flag(CXX -fuse-ld=${linker} LATHE_HAVE_LINKER_${linker})
    if(LATHE_HAVE_LINKER_${linker})
      set(LATHE_LINKER ${linker})
      add_link_options(-fuse-ld=${linker})
    endif()
  endif()
endforeach()
add_link_options(-Wl,--as-needed)

# ccache, with what it needs to cache files that use a precompiled header, and to give one clone what another compiled.
find_program(LATHE_CCACHE ccache)
if(LATHE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${LATHE_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lathe_flags INTERFACE -fpch-preprocess)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(lathe_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
  # std::stable_sort of libstdc++ 12 uses what libstdc++ 12 deprecates, and clang blames the caller.
  target_compile_options(lathe_flags INTERFACE -Wno-deprecated-declarations)
endif()
