# Executables, all in <build>/bin: tools/<name>/*.cpp -> <name>, bench/<name>.cpp or bench/<name>/*.cpp ->
# bench_<name>, examples/<name>.cpp -> <name>. They see include/ and the repository root, never src/.
# PCH names the precompiled header, lathe_pch where it is not set.
function(lathe_program target output)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE lathe_flags lathe_all lathe_dep_cli11 lathe_dep_json)
  if(NOT PCH)
    set(PCH lathe_pch)
  endif()
  lathe_use_pch(${target} ${PCH})
  get_property(modules GLOBAL PROPERTY LATHE_MODULES)
  if(modules)
    add_dependencies(${target} ${modules})
  endif()
endfunction()

# One program per sub-folder of `root`, named prefix<folder>.
function(lathe_program_folders root target_prefix output_prefix)
  file(GLOB sources CONFIGURE_DEPENDS ${root}/*/*.cpp)
  set(names "")
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    list(APPEND names ${name})
    list(APPEND sources_${name} ${source})
  endforeach()
  list(REMOVE_DUPLICATES names)
  foreach(name IN LISTS names)
    lathe_program(${target_prefix}${name} ${output_prefix}${name} ${sources_${name}})
  endforeach()
endfunction()

# One program per file of `root`.
function(lathe_program_files root target_prefix output_prefix)
  file(GLOB sources CONFIGURE_DEPENDS ${root}/*.cpp)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    lathe_program(${target_prefix}${name} ${output_prefix}${name} ${source})
  endforeach()
endfunction()

# What runs language models is built where these are.
if(TARGET lathe_apps)
  set(have_llm 1)
else()
  set(have_llm 0)
endif()
foreach(file chat llm_options quantize serve)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/lathe/${file}.cpp PROPERTIES COMPILE_DEFINITIONS LATHE_HAVE_LLM=${have_llm})
endforeach()

# Investigations are kept in SQLite.
if(TARGET lathe_investigations)
  set(have_investigations 1)
else()
  set(have_investigations 0)
endif()
foreach(file investigate mcp)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/lathe/${file}.cpp PROPERTIES COMPILE_DEFINITIONS
    LATHE_HAVE_INVESTIGATIONS=${have_investigations})
endforeach()

# The command line is parsed by CLI11 and prints JSON; a build without them still has the library.
# Both are large headers that most files of the tools include: parsed once, they are half of the time the tools take to compile.
if(LATHE_FOUND_cli11 AND LATHE_FOUND_json)
  lathe_make_pch(lathe_tool_pch <CLI/CLI.hpp> <nlohmann/json.hpp>)
  if(LATHE_PCH)
    target_link_libraries(lathe_tool_pch PRIVATE lathe_dep_cli11 lathe_dep_json)
  endif()
  set(PCH lathe_tool_pch)
  lathe_program_folders(${PROJECT_SOURCE_DIR}/tools tool_ "")
  unset(PCH)
  target_compile_definitions(tool_lathe PRIVATE LATHE_VERSION="${PROJECT_VERSION}")
  # It starts a hundred times in an investigation and uses nothing of Lathe.
  target_link_options(tool_lathe-scenario PRIVATE -Wl,--as-needed)
else()
  message(STATUS "lathe: CLI11 or nlohmann-json not found, so the command-line tools are not built")
endif()
lathe_program_folders(${PROJECT_SOURCE_DIR}/bench bench_ bench_)
lathe_program_files(${PROJECT_SOURCE_DIR}/bench bench_ bench_)
lathe_program_files(${PROJECT_SOURCE_DIR}/examples example_ "")
