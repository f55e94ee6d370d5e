# The same program runs the list on every device this machine has; the slow printer gets a seeded tenth.
set(LABELS slow)
set(SHARDS 2)
add_test(NAME ops_ref COMMAND test_ops --gtest_brief=1 --gtest_filter=*EqualTheReference*)
set_tests_properties(ops_ref PROPERTIES LABELS slow TIMEOUT 900 ENVIRONMENT "OPS_DEVICE=REF;OPS_SAMPLE=4")
add_test(NAME ops_c COMMAND test_ops --gtest_brief=1 --gtest_filter=*EqualTheReference*)
set_tests_properties(ops_c PROPERTIES LABELS slow TIMEOUT 900 ENVIRONMENT "LATHE_CPU=c;OPS_SAMPLE=10")
