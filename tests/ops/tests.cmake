# The same program runs the list on every device this machine has, and a seeded tenth of it through the C printer and
# NVRTC; the whole of both is test-all's.
set(LABELS slow)
set(SHARDS 4)
set(TIMEOUT 900)
function(lathe_ops_run name labels filter)
  add_test(NAME ${name} COMMAND test_ops --gtest_brief=1 --gtest_filter=${filter}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 1800 ENVIRONMENT "${ARGN}")
endfunction()
lathe_ops_run(ops_ref slow "*EqualTheReference*" OPS_DEVICE=REF)
lathe_ops_run(ops_printers_all matrix "*OfTheCpuGiveTheSameBits*" OPS_SAMPLE=1)
lathe_ops_run(ops_nvrtc_all matrix "*OfCudaTakeEveryKernel*" OPS_SAMPLE=1)
