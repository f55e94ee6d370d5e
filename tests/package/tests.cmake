# Installs this build into a scratch folder and builds a small project against it with find_package(lathe).
lathe_script_test(package LABELS slow COMMAND ${PROJECT_SOURCE_DIR}/tests/package/run.sh ${PROJECT_BINARY_DIR}
  ${CMAKE_CXX_COMPILER} ${PROJECT_VERSION} "-fsanitize=${LATHE_SANITIZE}")
