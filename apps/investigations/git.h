// A private copy of a user's repository, made so that nothing of theirs is touched: it borrows their objects,
// has a commit of what their tree looks like now (uncommitted changes and new files included) and makes
// worktrees of any commit in a folder of its own. A folder that is in no repository is a repository without
// history.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/investigations/scenario.h"

namespace lathe::investigations {

// The folder all worktrees of a repository share; nothing where a directory is in none.
std::optional<std::string> git_common_folder(const std::string& directory);

struct Commit {
  std::string id, title;
  std::vector<std::string> parents;
  std::string label() const;  // "1a2b3c4d5e6f (title)"
};

// A part of a change that can be taken back alone.
struct Hunk {
  std::string path, header, body;  // header: of its file, up to the first hunk
  int first_line = 0;              // in the file after the change
  std::string place() const;       // "src/a.py:12"
  std::string text() const { return header + body; }
};

class Repository {
 public:
  // Everything goes below `scratch`. Ignored files beyond so many bytes are not taken along. Copying, which
  // may take long, is a scenario with that mark and ends when `stop` says so.
  Repository(const std::string& directory, std::string scratch, std::int64_t carry, std::string mark,
             Stop stop);

  const std::string& root() const { return root_; }      // of the user's tree
  const std::string& prefix() const { return prefix_; }  // from there to the directory, "" or "sub/"
  const std::string& head() const { return head_; }      // empty where there is no commit
  const std::string& snapshot() const { return snapshot_; }
  bool changed() const { return changed_; }  // the snapshot is not the head
  const std::vector<std::string>& ignored() const { return ignored_; }
  std::uint64_t ignored_bytes() const { return ignored_bytes_; }  // what a worktree gets copies of
  const std::vector<std::string>& left_behind() const { return left_behind_; }  // too large, in words

  // A tree of the commit with the ignored files, but for those named.
  std::string worktree(const std::string& commit, const std::vector<std::string>& without_ignored = {});
  static void drop(const std::string& worktree);
  // A text with the user's tree replaced by another, wherever a path begins with it.
  std::string moved(const std::string& text, const std::string& worktree) const;

  std::vector<Commit> first_parents(const std::string& commit);  // latest first, itself included
  // What a merge brought in beside its first parent, latest first.
  std::vector<Commit> merged(const Commit& merge);
  Commit commit(const std::string& name);
  std::optional<std::string> resolve(const std::string& name);  // the full id of a commit
  std::string change(const std::string& before, const std::string& after, int context = 3);
  std::vector<Hunk> hunks(const std::string& before, const std::string& after);
  // The commit with a patch applied or taken back; nothing where it does not fit.
  std::optional<std::string> patched(const std::string& commit, const std::string& patch, bool back);
  // With files written, or removed where there is no text.
  std::string edited(const std::string& commit,
                     const std::map<std::string, std::optional<std::string>>& files);
  std::optional<std::string> file(const std::string& commit, const std::string& path);
  std::vector<std::string> files(const std::string& commit);
  // The file of the snapshot that a word of a command or of its output means: absolute, from the command's
  // directory or from the root; nothing where there is none.
  std::optional<std::string> path_of(const std::string& word);
  bool touches(const Commit& commit, const std::string& path);

  Ran git(std::vector<std::string> words, const std::map<std::string, std::string>& more = {},
          const std::string& input = "");

 private:
  std::string must(std::vector<std::string> words, const std::map<std::string, std::string>& more = {},
                   const std::string& input = "");
  void borrow();
  void take_snapshot();
  void find_ignored(std::int64_t carry);
  std::string commit_of(const std::string& tree, const std::string& parent);
  std::string temporary_index();

  std::string root_, prefix_, scratch_, git_folder_, head_, snapshot_, mark_;
  Stop stop_;
  bool in_repository_ = false, changed_ = false;
  std::uint64_t ignored_bytes_ = 0;
  std::vector<std::string> ignored_, left_behind_;
};

// The hunks as one patch.
std::string joined(const std::vector<Hunk>& hunks);

}  // namespace lathe::investigations
