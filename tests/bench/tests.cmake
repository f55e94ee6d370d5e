# What contenders of the benchmarks are given. The file under test belongs to the program `lathe`, which tests do not link.
lathe_test(bench FILES ${PROJECT_SOURCE_DIR}/tests/bench/inputs.cpp ${PROJECT_SOURCE_DIR}/tools/lathe/bench_cpu_inputs.cpp LIBS base)
