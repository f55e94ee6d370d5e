#include "apps/investigations/git.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/investigations/store.h"
#include "lathe/error.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;

// What a hook or an outer git leaves in the environment would lead to the user's files.
const std::map<std::string, std::string>& git_variables() {
  static const std::map<std::string, std::string> variables{
      {"GIT_DIR", ""},
      {"GIT_WORK_TREE", ""},
      {"GIT_INDEX_FILE", ""},
      {"GIT_OBJECT_DIRECTORY", ""},
      {"GIT_ALTERNATE_OBJECT_DIRECTORIES", ""},
      {"GIT_COMMON_DIR", ""},
      {"GIT_NAMESPACE", ""},
      {"GIT_PREFIX", ""},
      {"GIT_EXTERNAL_DIFF", ""},
      {"GIT_OPTIONAL_LOCKS", "0"},
      {"GIT_TERMINAL_PROMPT", "0"},
      {"GIT_LFS_SKIP_SMUDGE", "1"},
      {"LC_ALL", "C"},
  };
  return variables;
}

// No hooks and no housekeeping: neither is the investigation's to start.
std::vector<std::string> git_command(std::vector<std::string> words) {
  std::vector<std::string> command{"git",
                                   "-c",
                                   "core.hooksPath=/dev/null",
                                   "-c",
                                   "gc.auto=0",
                                   "-c",
                                   "core.quotePath=false",
                                   "-c",
                                   "diff.noprefix=false",
                                   "-c",
                                   "advice.detachedHead=false"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

Ran git_in(const std::string& directory, std::vector<std::string> words) {
  words.insert(words.begin(), {"-C", directory});
  return run_command(git_command(std::move(words)), git_variables());
}

std::string line_of(const Ran& ran) {
  std::string text = ran.output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::uint64_t bytes_below(const fs::path& path, std::uint64_t enough) {
  std::error_code failed;
  if (!fs::is_directory(fs::symlink_status(path, failed))) {
    const std::uint64_t bytes = fs::file_size(path, failed);
    return failed ? 0 : bytes;
  }
  std::uint64_t sum = 0;
  for (auto at =
           fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied, failed);
       !failed && at != fs::recursive_directory_iterator() && sum <= enough; at.increment(failed))
    if (at->is_regular_file(failed) && !at->is_symlink(failed)) sum += at->file_size(failed);
  return sum;
}

UserError git_failed(const std::vector<std::string>& words, const Ran& ran) {
  return UserError("investigate",
                   fmt::format("git {} ended with status {}: {}", words.empty() ? "" : words[0], ran.status,
                               ran.errors.substr(0, ran.errors.find('\n'))))
      .help("run git status in the repository: git reports the same problem there");
}

}  // namespace

std::optional<std::string> git_common_folder(const std::string& directory) {
  const Ran ran = git_in(directory, {"rev-parse", "--path-format=absolute", "--git-common-dir"});
  if (!ran.ok()) return std::nullopt;
  return line_of(ran);
}

std::string Commit::label() const { return fmt::format("{} ({})", id.substr(0, 12), title); }
std::string Hunk::place() const { return fmt::format("{}:{}", path, first_line); }

std::string joined(const std::vector<Hunk>& hunks) {
  std::string text;
  const Hunk* last = nullptr;
  for (const Hunk& h : hunks) {
    if (last == nullptr || last->header != h.header) text += h.header;
    text += h.body;
    last = &h;
  }
  return text;
}

Repository::Repository(const std::string& directory, std::string scratch, std::int64_t carry,
                       std::string mark, Stop stop)
    : scratch_(std::move(scratch)), mark_(std::move(mark)), stop_(std::move(stop)) {
  std::error_code failed;
  fs::create_directories(scratch_, failed);
  const fs::path here = fs::canonical(directory, failed);
  if (failed)
    throw MissingFile("investigate", fmt::format("{}: {}", directory, failed.message()))
        .help("the directory that the command runs in must exist");
  const Ran top = git_in(here.string(), {"rev-parse", "--show-toplevel"});
  in_repository_ = top.ok();
  if (!in_repository_ && top.errors.find("not a git repository") == std::string::npos)
    throw git_failed({"rev-parse"}, top);
  root_ = in_repository_ ? fs::canonical(line_of(top)).string() : here.string();
  if (in_repository_) prefix_ = line_of(git_in(here.string(), {"rev-parse", "--show-prefix"}));
  if (!in_repository_ &&
      bytes_below(root_, static_cast<std::uint64_t>(carry)) > static_cast<std::uint64_t>(carry))
    throw UserError("investigate",
                    fmt::format("{} is not in a git repository and has more than {} MiB", root_, carry >> 20))
        .help("run git init there, or copy more with --carry-mib");
  git_folder_ = scratch_ + "/repository/.git";
  borrow();
  take_snapshot();
  find_ignored(carry);
}

Ran Repository::git(std::vector<std::string> words, const std::map<std::string, std::string>& more,
                    const std::string& input) {
  std::map<std::string, std::string> variables = git_variables();
  variables["GIT_DIR"] = git_folder_;
  for (const char* who : {"AUTHOR", "COMMITTER"}) {
    variables[fmt::format("GIT_{}_NAME", who)] = "lathe";
    variables[fmt::format("GIT_{}_EMAIL", who)] = "lathe@localhost";
    variables[fmt::format("GIT_{}_DATE", who)] = "1000000000 +0000";  // equal trees are equal commits
  }
  for (const auto& [name, value] : more) variables[name] = value;
  return run_command(git_command(std::move(words)), variables, input);
}

std::string Repository::must(std::vector<std::string> words, const std::map<std::string, std::string>& more,
                             const std::string& input) {
  const Ran ran = git(words, more, input);
  if (!ran.ok()) throw git_failed(words, ran);
  return line_of(ran);
}

// An empty repository that looks for objects in the user's.
void Repository::borrow() {
  std::vector<std::string> init{"init", "--quiet", "--template="};
  const Ran form = git_in(root_, {"rev-parse", "--show-object-format"});
  if (in_repository_ && form.ok()) init.push_back("--object-format=" + line_of(form));
  init.push_back(scratch_ + "/repository");
  const Ran made = run_command(git_command(init), git_variables());
  if (!made.ok()) throw git_failed(init, made);
  if (!in_repository_) return;
  const std::string objects =
      line_of(git_in(root_, {"rev-parse", "--path-format=absolute", "--git-path", "objects"}));
  fs::create_directories(git_folder_ + "/objects/info");
  std::ofstream(git_folder_ + "/objects/info/alternates") << objects << "\n";
  std::error_code failed;
  const std::string exclude =
      line_of(git_in(root_, {"rev-parse", "--path-format=absolute", "--git-path", "info/exclude"}));
  fs::create_directories(git_folder_ + "/info");
  fs::copy_file(exclude, git_folder_ + "/info/exclude", fs::copy_options::overwrite_existing, failed);
  for (const char* setting :
       {"core.autocrlf", "core.eol", "core.fileMode", "core.symlinks", "core.excludesFile"}) {
    const Ran value = git_in(root_, {"config", "--get", setting});
    if (value.ok()) must({"config", setting, line_of(value)});
  }
  const Ran head = git_in(root_, {"rev-parse", "--verify", "--quiet", "HEAD^{commit}"});
  if (head.ok()) head_ = line_of(head);
  std::string updates;
  for (const std::string& line :
       split(git_in(root_, {"for-each-ref", "--format=%(objectname) %(refname)"}).output, '\n'))
    if (const std::size_t blank = line.find(' '); blank != std::string::npos)
      updates += fmt::format("update {} {}\n", line.substr(blank + 1), line.substr(0, blank));
  must({"update-ref", "--stdin"}, {}, updates);
  if (!head_.empty()) must({"update-ref", "--no-deref", "HEAD", head_});
}

// Through an index of our own: the user's is read, never written.
void Repository::take_snapshot() {
  const std::string index = temporary_index();
  std::error_code failed;
  const std::map<std::string, std::string> variables{{"GIT_INDEX_FILE", index}, {"GIT_WORK_TREE", root_}};
  if (in_repository_) {
    const std::string theirs =
        line_of(git_in(root_, {"rev-parse", "--path-format=absolute", "--git-path", "index"}));
    fs::copy_file(theirs, index, failed);
  }
  Ran added = git({"-C", root_, "add", "--all", "--ignore-errors", "."}, variables);
  if (!added.ok()) {  // an index with parts elsewhere cannot be copied
    fs::remove(index, failed);
    if (!head_.empty()) must({"read-tree", head_}, variables);
    added = git({"-C", root_, "add", "--all", "--ignore-errors", "."}, variables);
    if (!added.ok()) throw git_failed({"add"}, added);
  }
  const std::string tree = must({"write-tree"}, variables);
  changed_ = head_.empty() || must({"rev-parse", head_ + "^{tree}"}) != tree;
  snapshot_ = changed_ ? commit_of(tree, head_) : head_;
  fs::remove(index, failed);
}

void Repository::find_ignored(std::int64_t carry) {
  std::vector<std::string> names;
  if (in_repository_)
    names =
        split(git_in(root_, {"ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"})
                  .output,
              '\0');
  // Submodules and repositories inside this one are not part of its commits.
  for (const std::string& line : split(git({"ls-tree", "-r", "-z", snapshot_}).output, '\0'))
    if (line.rfind("160000 ", 0) == 0) names.push_back(line.substr(line.find('\t') + 1));
  std::uint64_t left = static_cast<std::uint64_t>(carry);
  for (const std::string& name : names) {
    const std::uint64_t bytes = bytes_below(root_ + "/" + name, left);
    if (bytes > left) {
      left_behind_.push_back(fmt::format("{} (more than {} MiB)", name, left >> 20));
      continue;
    }
    left -= bytes;
    ignored_bytes_ += bytes;
    ignored_.push_back(name);
  }
}

std::string Repository::temporary_index() {
  static std::atomic<int> count{0};
  return fmt::format("{}/index-{}-{}", scratch_, getpid(), ++count);
}

std::string Repository::commit_of(const std::string& tree, const std::string& parent) {
  std::vector<std::string> words{"commit-tree", tree, "-m", "a tree under investigation"};
  if (!parent.empty()) words.insert(words.end(), {"-p", parent});
  return must(words);
}

std::string Repository::worktree(const std::string& commit, const std::vector<std::string>& without_ignored) {
  static std::atomic<int> count{0};
  const std::string path = fmt::format("{}/tree-{}-{}", scratch_, getpid(), ++count);
  must({"worktree", "add", "--quiet", "--force", "--detach", path, commit});
  std::error_code failed;
  for (const std::string& name : ignored_) {
    if (std::find(without_ignored.begin(), without_ignored.end(), name) != without_ignored.end()) continue;
    std::string plain = name;
    if (!plain.empty() && plain.back() == '/') plain.pop_back();
    const std::string to = path + "/" + plain;
    if (fs::exists(fs::symlink_status(to, failed)) && !fs::is_directory(to, failed))
      continue;  // tracked there
    fs::create_directories(fs::path(to).parent_path(), failed);
    if (fs::is_directory(to, failed)) fs::remove(to, failed);  // where a submodule would be
    const Scenario copy{
        "a copy of " + plain,
        {"cp", "-a", "--reflink=auto", root_ + "/" + plain, fs::path(to).parent_path().string()},
        scratch_,
        this_environment(),
        0,
        0};
    run_scenario(copy, mark_, scratch_, stop_);
    if (stop_()) break;
    // A Python environment finds packages that are developed in the tree by its path.
    for (auto at =
             fs::recursive_directory_iterator(to, fs::directory_options::skip_permission_denied, failed);
         !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
      if (at->path().extension() != ".pth" || !at->is_regular_file(failed)) continue;
      std::ifstream in(at->path());
      std::ostringstream text;
      text << in.rdbuf();
      std::ofstream(at->path()) << moved(text.str(), path);
    }
  }
  return path;
}

void Repository::drop(const std::string& worktree) {
  std::error_code ignored;
  fs::remove_all(worktree, ignored);
}

std::string Repository::moved(const std::string& text, const std::string& worktree) const {
  std::string result;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = text.find(root_, at)) != std::string::npos; at += root_.size()) {
    const std::size_t end = at + root_.size();
    const auto part_of_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    };
    if (end < text.size() && part_of_name(text[end])) continue;
    if (at > 0 && (part_of_name(text[at - 1]) || text[at - 1] == '/')) continue;
    result += text.substr(from, at - from) + worktree;
    from = end;
  }
  return result + text.substr(from);
}

namespace {
constexpr const char* kFormat = "--format=%H%x00%P%x00%s";
std::vector<Commit> commits_of(const std::string& log) {
  std::vector<Commit> all;
  for (const std::string& line : split(log, '\n')) {
    const std::vector<std::string> parts = split(line, '\0');
    if (parts.empty() || parts[0].empty()) continue;
    all.push_back({parts[0], parts.size() > 2 ? parts[2] : "", split(parts.size() > 1 ? parts[1] : "", ' ')});
  }
  return all;
}
}  // namespace

std::vector<Commit> Repository::first_parents(const std::string& commit) {
  return commits_of(git({"log", "--first-parent", kFormat, commit}).output);
}
std::vector<Commit> Repository::merged(const Commit& merge) {
  std::vector<std::string> words{"log", "--topo-order", kFormat, "^" + merge.parents.at(0)};
  words.insert(words.end(), merge.parents.begin() + 1, merge.parents.end());
  return commits_of(git(words).output);
}
Commit Repository::commit(const std::string& name) {
  const std::vector<Commit> found = commits_of(must({"log", "-1", kFormat, name}));
  return found.empty() ? Commit{name, "", {}} : found.front();
}
std::optional<std::string> Repository::resolve(const std::string& name) {
  const Ran ran = git({"rev-parse", "--verify", "--quiet", name + "^{commit}"});
  if (!ran.ok()) return std::nullopt;
  return line_of(ran);
}

std::string Repository::change(const std::string& before, const std::string& after, int context) {
  return git({"diff", "--full-index", "--binary", "--no-ext-diff", "--no-color", "--no-renames",
              fmt::format("--unified={}", context), before, after})
      .output;
}

std::vector<Hunk> Repository::hunks(const std::string& before, const std::string& after) {
  std::vector<Hunk> all;
  std::string header, path;
  bool in_header = false;
  bool found_hunk = true;
  std::istringstream lines(change(before, after, 1));
  const auto whole_file = [&] {  // a mode, a name or bytes that are no text
    if (!found_hunk && !header.empty()) all.push_back({path, header, "", 1});
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("diff --git ", 0) == 0) {
      whole_file();
      header = line + "\n";
      path = line.substr(line.rfind(" b/") + 3);
      in_header = true;
      found_hunk = false;
    } else if (line.rfind("@@ ", 0) == 0) {
      in_header = false;
      found_hunk = true;
      const std::size_t plus = line.find('+');
      const int start = std::atoi(line.c_str() + plus + 1);
      all.push_back({path, header, line + "\n", start});
    } else if (in_header) {
      header += line + "\n";
    } else {
      all.back().body += line + "\n";
    }
  }
  whole_file();
  // The first line that really differs, not the context above it.
  for (Hunk& h : all) {
    std::istringstream body(h.body);
    std::string line;
    std::getline(body, line);
    while (std::getline(body, line) && !line.empty() && line[0] == ' ') ++h.first_line;
  }
  return all;
}

std::optional<std::string> Repository::patched(const std::string& commit, const std::string& patch,
                                               bool back) {
  if (patch.empty()) return std::nullopt;
  const std::string index = temporary_index();
  std::error_code ignored;
  std::optional<std::string> made;
  for (const bool merge : {false, true}) {
    const std::map<std::string, std::string> variables{{"GIT_INDEX_FILE", index}};
    must({"read-tree", commit}, variables);
    std::vector<std::string> words{"apply", "--cached", "--whitespace=nowarn"};
    if (merge) words.emplace_back("--3way");
    if (back) words.emplace_back("--reverse");
    words.emplace_back("-");
    if (!git(words, variables, patch).ok()) continue;
    const Ran tree = git({"write-tree"}, variables);
    if (!tree.ok()) continue;
    made = commit_of(line_of(tree), commit);
    break;
  }
  fs::remove(index, ignored);
  return made;
}

std::string Repository::edited(const std::string& commit,
                               const std::map<std::string, std::optional<std::string>>& files) {
  const std::string index = temporary_index();
  std::error_code ignored;
  const std::map<std::string, std::string> variables{{"GIT_INDEX_FILE", index}};
  must({"read-tree", commit}, variables);
  for (const auto& [path, text] : files) {
    if (!text) {
      must({"update-index", "--force-remove", "--", path}, variables);
      continue;
    }
    const std::string blob = must({"hash-object", "-w", "--stdin"}, {}, *text);
    std::string mode = "100644";
    const std::string before = git({"ls-tree", commit, "--", path}).output;
    if (before.size() > 6) mode = before.substr(0, 6);
    must({"update-index", "--add", "--cacheinfo", fmt::format("{},{},{}", mode, blob, path)}, variables);
  }
  const std::string made = commit_of(must({"write-tree"}, variables), commit);
  fs::remove(index, ignored);
  return made;
}

std::optional<std::string> Repository::file(const std::string& commit, const std::string& path) {
  const Ran ran = git({"cat-file", "blob", commit + ":" + path});
  if (!ran.ok()) return std::nullopt;
  return ran.output;
}

std::vector<std::string> Repository::files(const std::string& commit) {
  return split(git({"ls-tree", "-r", "--name-only", "-z", commit}).output, '\0');
}

std::optional<std::string> Repository::path_of(const std::string& word) {
  if (word.empty()) return std::nullopt;
  std::vector<std::string> tried{prefix_ + word, word};
  if (word[0] == '/') {
    if (word.rfind(root_ + "/", 0) != 0) return std::nullopt;
    tried = {word.substr(root_.size() + 1)};
  }
  for (const std::string& path : tried) {
    const std::string plain = fs::path(path).lexically_normal().string();
    if (git({"cat-file", "-t", snapshot_ + ":" + plain}).output == "blob\n") return plain;
  }
  return std::nullopt;
}

bool Repository::touches(const Commit& commit, const std::string& path) {
  std::vector<std::string> words{"diff-tree",      "--root",  "-r", "--name-only",
                                 "--no-commit-id", commit.id, "--", path};
  return !git(words).output.empty();
}

}  // namespace lathe::investigations
