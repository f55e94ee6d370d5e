#include "base/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace lathe {
namespace {

namespace fs = std::filesystem;
using Outcome = ChildProcess::Outcome;

TEST(ChildProcess, AnswersALineWithALine) {
  ChildProcess child({"cat"});
  EXPECT_EQ(child.ask("hello", 10).text, "hello");
  EXPECT_EQ(child.ask("again", 10).text, "again");
  EXPECT_TRUE(child.alive());
}

TEST(ChildProcess, SeesTheVariablesItIsGiven) {
  ChildProcess child({"sh", "-c", "read line; echo $LATHE_TEST_VARIABLE; echo ${HOME-none}"},
                     {{"LATHE_TEST_VARIABLE", "seven"}, {"HOME", ""}});
  EXPECT_EQ(child.ask("go", 10).text, "seven");
  EXPECT_EQ(child.next_line(10).text, "none");
}

TEST(ChildProcess, ACrashIsAnAnswer) {
  ChildProcess child({"sh", "-c", "read line; kill -SEGV $$"});
  const ChildProcess::Answer answer = child.ask("go", 10);
  EXPECT_EQ(answer.outcome, Outcome::Crashed);
  EXPECT_EQ(answer.text, "crashed: Segmentation fault");
  EXPECT_FALSE(child.alive());
  EXPECT_EQ(child.ask("more", 10).outcome, Outcome::Crashed);
}

TEST(ChildProcess, AnExitIsAnAnswer) {
  ChildProcess child({"sh", "-c", "read line; exit 3"});
  EXPECT_EQ(child.ask("go", 10).text, "ended with status 3");
}

TEST(ChildProcess, SilenceEndsItWithAllItStarted) {
  ChildProcess child({"sh", "-c", "sleep 1000 & echo $!; read line; read line"});
  const int grandchild = std::stoi(child.next_line(10).text);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(child.ask("go", 0.1).outcome, Outcome::Silent);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_FALSE(child.alive());
  // Gone, or waiting for its new parent to notice.
  for (int i = 0; i < 500 && kill(grandchild, 0) == 0; ++i) {
    std::ifstream file("/proc/" + std::to_string(grandchild) + "/stat");
    std::string number, name, state;
    file >> number >> name >> state;
    if (state == "Z") return;
    usleep(10'000);
  }
  EXPECT_NE(kill(grandchild, 0), 0);
}

TEST(ChildProcess, AProgramThatDoesNotExistIsNotRunning) {
  ChildProcess child({"/nonexistent/program"});
  EXPECT_FALSE(child.ask("go", 10).ok());
  EXPECT_EQ(find_program("lathe-no-such-program"), "");
  EXPECT_NE(find_program("sh"), "");
  EXPECT_EQ(find_program("lathe-program", {"/nonexistent"}), "");
  const fs::path folder = fs::path(testing::TempDir()) / "lathe_find_program";
  fs::create_directories(folder);
  fs::copy_file("/bin/sh", folder / "lathe-program", fs::copy_options::overwrite_existing);
  EXPECT_EQ(find_program("lathe-program", {folder.string()}), (folder / "lathe-program").string());
  // This program is in the folder `bin` of its build, from which `../bin` leads there too.
  EXPECT_EQ(fs::canonical(find_program("test_base")), fs::canonical(program_folder() + "/../bin/test_base"));
}

}  // namespace
}  // namespace lathe
