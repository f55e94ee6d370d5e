// The command line as a user meets it: what it prints, refuses and returns.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Result {
  int status;
  std::string out;  // standard output and standard error
};

// Runs the program with these words; the shell is only asked to join the two outputs.
Result run(const std::string& words, const std::string& environment = "", bool errors = true) {
  const std::string command =
      environment + " '" LATHE_PROGRAM "' " + words + (errors ? " 2>&1" : " 2>/dev/null");
  FILE* pipe = popen(command.c_str(), "r");
  Result result{-1, ""};
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) result.out += part.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_lines_fit(const std::string& text, std::size_t columns = 100) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
}

TEST(Cli, HelpListsEveryCommandAndOneCommandEveryFlag) {
  const Result r = run("--help");
  EXPECT_EQ(r.status, 0);
  for (const char* word :
       {"demo", "devices", "bench", "run", "cache", "tune", "inspect", "lathe help flags", "--version"})
    EXPECT_TRUE(contains(r.out, word)) << word << "\n" << r.out;
  const Result flags = run("help flags");
  EXPECT_EQ(flags.status, 0);
  for (const char* word : {"LATHE_DEBUG", "LATHE_CACHE"}) EXPECT_TRUE(contains(flags.out, word)) << flags.out;
  expect_lines_fit(flags.out);
}

TEST(Cli, HelpOfACommandIsTheCommandsOwn) {
  const Result r = run("help tune");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, run("tune --help").out);
  for (const char* word : {"--budget", "resnet50_forward", "gpt2"})
    EXPECT_TRUE(contains(r.out, word)) << r.out;
}

TEST(Cli, HelpWithoutAWordIsTheHelpOfAll) { EXPECT_EQ(run("help").out, run("--help").out); }

TEST(Cli, WhatIsMissingIsSaid) {
  const char* kRows[][2] = {
      {"", "lathe: a command is needed: demo, devices, bench"},
      {"cache", "lathe cache: a command is needed: info, clear"},
      {"tune", "lathe tune: what is needed: a net, or a kernel file that LATHE_SAVE wrote"},
      {"run nowhere.onnx", "lathe run: file: there is no file nowhere.onnx"},
      {"run /tmp", "lathe run: file: /tmp is a folder, and a file is needed"},
      {"inspect nowhere", "lathe inspect: file: there is no file or folder nowhere"},
      {"faults", "lathe: faults: this build cannot plant faults"},
      {"demo --data /nonexistent", "lathe demo: --data: there is no folder /nonexistent"},
  };
  for (const auto& [words, text] : kRows) {
    const Result r = run(words);
    EXPECT_EQ(r.status, 2) << words;
    EXPECT_TRUE(contains(r.out, text)) << words << "\n" << r.out;
  }
}

TEST(Cli, HelpFitsEightyColumnsAndAPipe) {
  for (const char* words : {"help", "help flags", "demo --help", "bench --help", "bench cpu --help",
                            "tune --help", "run --help", "inspect --help", "cache --help", "faults --help",
                            "quantize --help", "chat --help", "serve --help"}) {
    const Result r = run(words);
    EXPECT_EQ(r.status, 0) << words;
    EXPECT_FALSE(contains(r.out, "\033")) << words;
    expect_lines_fit(r.out, 80);
  }
}

TEST(Cli, VersionIsTheLibrarysOwn) {
  const Result r = run("--version");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out.substr(0, 6), "lathe ");
  EXPECT_TRUE(contains(r.out, ".")) << r.out;
}

TEST(Cli, DevicesFitsAHundredColumns) { expect_lines_fit(run("devices").out); }

TEST(Cli, AMisspeltCommandIsRefusedWithTheNearestOne) {
  const Result r = run("devises");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out,
            "lathe: unknown word devises\n  help: did you mean devices?\n  help: lathe --help lists what "
            "there is\n");
}

TEST(Cli, AMisspeltOptionIsRefusedWithTheNearestOne) {
  const Result r = run("bench ir --jsno");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out,
            "lathe bench ir: unknown option --jsno\n  help: did you mean --json?\n"
            "  help: lathe bench ir --help lists what there is\n");
}

TEST(Cli, WrongValuesAreRefused) {
  for (const char* words :
       {"bench ir --nodes many", "bench ir --rounds 0", "demo --epochs -1", "demo --data /nonexistent",
        "bench compile --peer nobody", "bench", "", "cache shrink"}) {
    const Result r = run(words);
    EXPECT_EQ(r.status, 2) << words << "\n" << r.out;
    EXPECT_TRUE(contains(r.out, "help: lathe")) << words << "\n" << r.out;
  }
  for (const char* option : {"--budget", "--scenario-seconds", "--slower-than"})
    for (const char* value : {"x", "0", "-1", "inf", "1e999"}) {
      const Result r = run(std::string("investigate ") + option + "=" + value + " words");
      EXPECT_EQ(r.status, 2) << r.out;
      EXPECT_TRUE(contains(r.out, std::string(value) + " is not a number above 0")) << r.out;
    }
}

TEST(Cli, AnUnknownNetIsRefusedWithTheNamesThereAre) {
  const Result r = run("bench compile resnet50_foward");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.out, "did you mean resnet50_forward?")) << r.out;
  EXPECT_TRUE(contains(r.out, "llama_1b_decode")) << r.out;
}

TEST(Cli, AWrongFlagInTheEnvironmentIsRefusedAndAnUnknownOneNamed) {
  const Result r = run("devices", "LATHE_DEBUG=loud");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.out, "LATHE_DEBUG")) << r.out;
  const Result misspelt = run("devices", "LATHE_DEBGU=1");  // perhaps another program's: a warning
  EXPECT_EQ(misspelt.status, 0);
  EXPECT_TRUE(contains(misspelt.out, "LATHE_DEBGU")) << misspelt.out;
  EXPECT_TRUE(contains(misspelt.out, "LATHE_DEBUG")) << misspelt.out;
}

TEST(Cli, ALevelTakesInstructionsFromTheCpuDevice) {
  const Result all = run("devices"), level = run("devices", "LATHE_CPU_LEVEL=x86-64-v2");
  EXPECT_EQ(level.status, 0) << level.out;
  EXPECT_NE(level.out.find("x86-64-v2, 128-bit vectors"), std::string::npos) << level.out;
  EXPECT_NE(all.out.find("CPU"), std::string::npos);
  EXPECT_EQ(run("devices", "LATHE_CPU_LEVEL=native").out, all.out);
}

TEST(Cli, DevicesListsTheCpuAndTheReference) {
  const Result r = run("devices");
  EXPECT_EQ(r.status, 0);
  for (const char* name : {"CPU", "REF", "NULL", "DISK", "ready"})
    EXPECT_TRUE(contains(r.out, name)) << r.out;
}

TEST(Cli, BenchIrGivesAnArrayOfObjects) {
  const Result r = run("bench ir --json --nodes 2000 --rounds 1", "", false);
  ASSERT_EQ(r.status, 0) << r.out;
  const auto rows = nlohmann::json::parse(r.out);
  ASSERT_TRUE(rows.is_array());
  std::vector<std::string> names;
  for (const auto& row : rows) {
    names.push_back(row.at("name"));
    EXPECT_GT(row.at("ns").get<double>(), 0) << row;
    EXPECT_GT(row.at("count").get<double>(), 0) << row;
  }
  for (const char* name :
       {"create", "intern_hit", "structural_hash", "toposort", "consumer_map", "order_key", "rewrite"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST(Cli, BenchCompileGivesEveryStage) {
  const Result r = run("bench compile resnet50_forward --json --no-machine-code", "", false);
  ASSERT_EQ(r.status, 0) << r.out;
  const auto rows = nlohmann::json::parse(r.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("name"), "resnet50_forward");
  double sum = 0;
  for (const char* stage : {"tensor_ms", "schedule_ms", "codegen_ms", "linearize_ms"})
    sum += rows[0].at(stage).get<double>();
  EXPECT_NEAR(rows[0].at("total_ms").get<double>(), sum, 0.01);
  EXPECT_EQ(rows[0].at("compile_ms"), 0);
  EXPECT_GE(rows[0].at("kernels").get<int>(), rows[0].at("unique_kernels").get<int>());
  EXPECT_GT(rows[0].at("nodes").get<int>(), 500);
}

// A folder of peers with one that is this shell script.
std::string folder_with_peer(const std::string& name, const std::string& script) {
  const std::string folder = testing::TempDir() + "lathe_cli_" + name;
  std::filesystem::create_directories(folder + "/bin");
  std::ofstream(folder + "/bin/python") << "#!/bin/sh\n" << script;
  std::filesystem::permissions(folder + "/bin/python", std::filesystem::perms::owner_all);
  return folder;
}

constexpr const char* kOneSmallRow = "bench cpu --quick --rounds 1 --filter sgemm_256_t1 --peers ";

TEST(Cli, BenchCpuNamesItsRows) {
  const Result r = run("bench cpu --list");
  ASSERT_EQ(r.status, 0) << r.out;
  for (const char* name : {"sgemm_1024_t2\n", "sgemm_odd_1000x1000x1000\n", "conv3x3_64x56x56_b1\n",
                           "demo_step_b512\n", "matvec_8192_4bit\n", "attention_8x2048x64_causal\n"})
    EXPECT_TRUE(contains(r.out, name)) << name << "\n" << r.out;
  const Result one = run("bench cpu --list --threads 3 --filter sgemm_512");
  EXPECT_EQ(one.out, "sgemm_512_t3\n");
}

TEST(Cli, BenchCpuRefusesARowItDoesNotHave) {
  const Result r = run("bench cpu --filter sgem_256_t1");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.out, "no row's name contains sgem_256_t1")) << r.out;
  EXPECT_TRUE(contains(r.out, "did you mean sgemm_256_t1?")) << r.out;
  EXPECT_EQ(run("bench cpu --threads 0").status, 2);
}

TEST(Cli, BenchCudaRefusesASectionItDoesNotHave) {
  const Result r = run("bench cuda --list --section nonsense");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.out, "there is no section 'nonsense'")) << r.out;
  EXPECT_TRUE(contains(r.out, "products")) << r.out;
}

TEST(Cli, BenchCpuGoesOnWhereAPeerCrashes) {
  const std::string words = kOneSmallRow + folder_with_peer("crash", "kill -SEGV $$\n");
  const Result r = run(words + " --json", "", false);
  ASSERT_EQ(r.status, 0) << r.out;
  const auto rows = nlohmann::json::parse(r.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("name"), "sgemm_256_t1");
  EXPECT_EQ(rows[0].at("unit"), "GFLOP/s");
  EXPECT_GT(rows[0].at("lathe").get<double>(), 0);
  EXPECT_GT(rows[0].at("roof_share").get<double>(), 0);
  for (const char* key : {"peer", "peer_name", "ratio", "wrong"})
    EXPECT_TRUE(rows[0].at(key).is_null()) << rows;
  EXPECT_TRUE(contains(run(words).out, "sgemm_256_t1: torch: crashed: Segmentation fault"));
}

TEST(Cli, BenchCpuDoesNotCountAPeerWhoseResultIsWrong) {
  // Answers everything as if all results were 0.
  const std::string folder = folder_with_peer("wrong", R"(while read line; do
case "$line" in
*prepare*) echo '{"version": "1"}' ;;
*places*) echo '{"values": ['$(seq -s, 512 | sed 's/[0-9]\{1,\}/0/g')']}' ;;
*) echo '{"best": 0.000001, "runs": 1}' ;;
esac
done
)");
  const Result r = run(kOneSmallRow + folder);
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_TRUE(contains(r.out, "torch's result is off by 1 of the plain formula's")) << r.out;
  EXPECT_FALSE(contains(r.out, " torch  ")) << r.out;
}

// A kernel file, as LATHE_SAVE writes it.
std::string saved_kernel(const std::string& name) {
  const std::string folder = testing::TempDir() + "lathe_cli_kernels_" + name;
  std::filesystem::remove_all(folder);
  run("bench cpu --quick --rounds 1 --filter sgemm_256_t1 --peers /nonexistent",
      "LATHE_CACHE=off LATHE_SAVE=" + folder);
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (contains(file.path().string(), "r_256_256_x256")) return file.path().string();
  return "";
}

TEST(Cli, TuneSearchesAKernelAndKnowsItAfterwards) {
  const std::string file = saved_kernel("tune"), cache = testing::TempDir() + "lathe_cli_tuned";
  ASSERT_NE(file, "");
  std::filesystem::remove_all(cache + "-tuned");
  const Result r = run("tune " + file + " --budget 2s --json", "LATHE_CACHE=" + cache, false);
  ASSERT_EQ(r.status, 0) << r.out;
  const auto rows = nlohmann::json::parse(r.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("why"), "") << rows;
  EXPECT_GT(rows[0].at("default_us").get<double>(), 0);
  EXPECT_LE(rows[0].at("best_us").get<double>(), rows[0].at("default_us").get<double>());
  EXPECT_GE(rows[0].at("curve").size(), 1u);
  EXPECT_FALSE(rows[0].at("known").get<bool>());
  const Result again = run("tune " + file + " --budget 2s", "LATHE_CACHE=" + cache);
  EXPECT_EQ(again.status, 0);
  EXPECT_TRUE(contains(again.out, "known")) << again.out;
}

TEST(Cli, TuneRefusesWhatItCannotTune) {
  const Result r = run("tune resnet50_foward");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.out, "did you mean resnet50_forward?")) << r.out;
  for (const char* words :
       {"tune", "tune resnet50_forward --budget soon", "tune resnet50_forward --budget 0s",
        "tune resnet50_forward --device REF", "tune resnet50_forward --beam 0"})
    EXPECT_EQ(run(words).status, 2) << words;
}

TEST(Cli, InspectGivesTheSavedSourceByteForByte) {
  const std::string file = saved_kernel("inspect");
  ASSERT_NE(file, "");
  const Result same = run("inspect --check " + file, "LATHE_THREADS=1");
  EXPECT_EQ(same.status, 0) << same.out;
  const Result other = run("inspect --check --options 'UPCAST(0, 2)' " + file, "LATHE_THREADS=1");
  EXPECT_EQ(other.status, 1) << other.out;
  EXPECT_TRUE(contains(run("inspect --options 'UPCAST(0, 2)' " + file).out, "UPCAST(0, 2) (given)"));
  EXPECT_TRUE(contains(run("inspect --graph " + file).out, "Param"));
  EXPECT_EQ(run("inspect --options 'UPCAST(9, 2)' " + file).status, 2);
  const std::string steps = run("inspect --steps --options 'UPCAST(0, 2)' " + file).out;
  for (const char* row :
       {"== plan_kernels (schedule): ", "== option_ranges (options): ", "== linearize (lower): "})
    EXPECT_TRUE(contains(steps, row)) << steps;
  const std::string one = run("inspect --step option_ranges --options 'UPCAST(0, 2)' " + file).out;
  EXPECT_TRUE(contains(one, "+ Range.idx [3, upcast]")) << one;
  EXPECT_FALSE(contains(one, "linearize")) << one;
  EXPECT_TRUE(contains(run("inspect --step simplify " + file, "LATHE_WITHOUT=simplify").out, "; disabled"));
  EXPECT_EQ(run("inspect --step nothing " + file).status, 2);
  EXPECT_EQ(run("inspect /nonexistent").status, 2);
}

// A model of llama2.c with two layers of 32 features, all weights 0.25: rows of 48 are not a multiple of the
// block size.
std::string story_model(const std::string& path) {
  const std::int32_t dim = 32, feed = 48, layers = 2, heads = 4, tokens = 8, context = 16;
  const std::int32_t head[] = {dim, feed, layers, heads, heads, tokens, context};
  const std::size_t block = 2 * dim + 4 * dim * dim + 3 * dim * feed;
  const std::vector<float> weights(tokens * dim + layers * block + dim + context * dim / heads, 0.25F);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(head), sizeof head);
  out.write(reinterpret_cast<const char*>(weights.data()),
            static_cast<std::streamsize>(weights.size() * sizeof(float)));
  return path;
}

TEST(Cli, AModelIsPackedAndShown) {
  const std::string folder = testing::TempDir() + "lathe_cli_models";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string model = story_model(folder + "/model.bin"), packed = folder + "/packed.gguf";
  const Result written = run("quantize " + model + " " + packed + " --type q8_0");
  if (contains(written.out, "unknown word quantize")) GTEST_SKIP() << "built without the libraries it needs";
  ASSERT_EQ(written.status, 0) << written.out;
  EXPECT_TRUE(contains(
      written.out, "blk.1.ffn_down.weight: F16, because rows of 48 are not a multiple of the block size 32"))
      << written.out;
  EXPECT_TRUE(contains(written.out, "bits per number")) << written.out;
  expect_lines_fit(run("quantize --all " + model + " " + packed).out);
  const Result shown = run("inspect " + packed);
  EXPECT_EQ(shown.status, 0);
  for (const char* part : {"GGUF, 20 tensors (2 F16, 5 F32, 13 Q8_0)", "general.architecture = llama",
                           "llama.block_count = 2", "blk.0.attn_q.weight", "32 x 32"})
    EXPECT_TRUE(contains(shown.out, part)) << part << "\n" << shown.out;
  const auto json = nlohmann::json::parse(run("inspect --json " + packed, "", false).out);
  EXPECT_EQ(json["format"], "GGUF");
  EXPECT_EQ(json["tensors"].size(), 20U);
  EXPECT_EQ(run("quantize " + model + " " + packed + " --type iq1_s").status, 2);
  EXPECT_EQ(run("quantize /nonexistent " + packed).status, 2);
  std::ofstream(folder + "/bad.gguf") << "GGUF and no more";
  const Result bad = run("inspect " + folder + "/bad.gguf");
  EXPECT_EQ(bad.status, 2);
  EXPECT_TRUE(contains(bad.out, "bad.gguf")) << bad.out;
  std::filesystem::remove_all(folder);
}

TEST(Cli, TheCacheCanBeShownAndCleared) {
  const std::string folder = testing::TempDir() + "lathe_cli_cache";
  EXPECT_EQ(run("cache clear", "LATHE_CACHE=" + folder).status, 0);
  const Result r = run("cache info", "LATHE_CACHE=" + folder);
  EXPECT_EQ(r.status, 0);
  EXPECT_TRUE(contains(r.out, "0 entries")) << r.out;
  for (const char* off : {"LATHE_CACHE=off", "LATHE_CACHE=0"})
    EXPECT_TRUE(contains(run("cache info", off).out, "the cache is off")) << off;
}

// y = Relu(x), as an ONNX file of 60 bytes.
std::filesystem::path relu_model() {
  auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const std::string type = field(1, std::string("\x08\x01", 2) + field(2, field(1, field(2, "N"))));
  const std::string graph = field(1, field(1, "x") + field(2, "y") + field(4, "Relu")) +
                            field(11, field(1, "x") + field(2, type)) +
                            field(12, field(1, "y") + field(2, type));
  const auto file =
      std::filesystem::temp_directory_path() / ("lathe-cli-" + std::to_string(getpid()) + ".onnx");
  std::ofstream(file, std::ios::binary) << field(7, graph) << field(8, std::string("\x10\x11", 2));
  return file;
}

TEST(Cli, RunTellsWhatAModelHoldsAndThenItsResults) {
  const std::string file = relu_model().string();
  const std::string npy = file + ".npy", out = file + ".out";
  std::string bytes = "\x93NUMPY\x01";
  bytes += std::string("\0\x76\0", 3) + "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  bytes.resize(127, ' ');
  bytes += '\n';
  const float values[] = {-1, 3};
  bytes.append(reinterpret_cast<const char*>(values), sizeof(values));
  std::ofstream(npy, std::ios::binary) << bytes;
  Result r = run("run " + file + " --input x=" + npy + " --output " + out);
  EXPECT_EQ(r.status, 0) << r.out;
  for (const char* part :
       {"input    x float32 (N)", "output   y float32 (N)", "ops      1 Relu", "kernels  1", "memory   ",
        "result   y float32 (2,): 0 3; least 0, greatest 3 at 1"})
    EXPECT_TRUE(contains(r.out, part)) << part << "\n" << r.out;
  EXPECT_TRUE(std::filesystem::exists(out + "/y.npy"));
  r = run("run " + file + " --input x=" + npy + " --json", "", false);
  const auto report = nlohmann::json::parse(r.out);
  EXPECT_EQ(report.at("results").at("y").at("data"), (std::vector<double>{0, 3}));
  EXPECT_EQ(report.at("inputs").at(0).at("dims").at(0), "N");
  r = run("run " + file + " --bench --seconds 1 --dim N=5 --json", "", false);
  EXPECT_TRUE(nlohmann::json::parse(r.out).at("bench").at("replayed").get<bool>()) << r.out;
  std::filesystem::remove(npy);
  std::filesystem::remove_all(out);
  std::filesystem::remove(file);
}

TEST(Cli, RunRefusesWhatDoesNotFit) {
  const std::string file = relu_model().string();
  struct Row {
    const char *words, *says;
  };
  for (const Row& row :
       {Row{"", "input 'x' is missing: the model takes x float32 (N)"},
        Row{"--input y=a.npy", "the model has no input 'y'"},
        Row{"--input x", "--input x is not name=file.npy"},
        Row{"--input x=absent.npy", "absent.npy cannot be opened"},
        Row{"--bench --dim N=many", "many is not a size"}, Row{"--seconds 0", "--seconds"}}) {
    const Result r = run("run " + file + " " + row.words);
    EXPECT_EQ(r.status, 2) << row.words << "\n" << r.out;
    EXPECT_TRUE(contains(r.out, row.says)) << row.words << "\n" << r.out;
  }
  std::ofstream(file, std::ios::binary) << "this is not a model";
  const Result r = run("run " + file + " --random");
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_TRUE(contains(r.out, "lathe: onnx: ")) << r.out;
  std::filesystem::remove(file);
}

}  // namespace
