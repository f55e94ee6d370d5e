#include "investigate/repro_file.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/disk_cache.h"
#include "engine/inputs_file.h"

namespace lathe::investigate {
namespace {

// Contents of so many elements are part of the text.
constexpr std::int64_t kMostElements = 4096;

std::string folder_of(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  if (const std::string& saved = flag_text(Flag::Save); !saved.empty()) return saved;
  const engine::DiskCache* disk = engine::DiskCache::current();
  const auto temporary = std::filesystem::temp_directory_path() / fmt::format("lathe-repros-{}", getuid());
  return disk != nullptr ? disk->folder() + "-repros" : temporary.string();
}

// The same text for a C++ and a Python program, and what each does with it.
struct Program {
  const char *suffix, *comment, *before, *after;
};
constexpr Program kPrograms[] = {
    {".cpp", "// ",
     "// Against an installed Lathe: find_package(lathe), target_link_libraries(... lathe::lathe).\n"
     "#include <cstdio>\n\n#include \"lathe/dev/investigate_kernel.h\"\n\nconstexpr const char* kText = "
     "R\"lathe(",
     ")lathe\";\n\nint main() {\n  const lathe::dev::TextCheck check = lathe::dev::check_text(kText);\n"
     "  std::printf(\"%s: %s\\n\", check.outcome.c_str(), check.text.c_str());\n"
     "  return check.failed ? 1 : 0;\n}\n"},
    {".py", "# ", "import sys\n\nfrom lathe import _core\n\nTEXT = r\"\"\"",
     "\"\"\"\n\nfailed, said = _core.check_text(TEXT)\nprint(said)\nsys.exit(1 if failed else 0)\n"},
};

std::string commented(const std::string& about, const std::string& mark) {
  std::string out;
  std::istringstream lines(about + "\nIt ends with status 1 while the failure is there.");
  for (std::string line; std::getline(lines, line);) out += mark + line + "\n";
  return out;
}

void write_programs(const std::string& stem, const std::string& text, const std::string& about) {
  for (const Program& program : kPrograms)
    write_file_atomic(stem + program.suffix,
                      commented(about, program.comment) + program.before + text + program.after, Sync::No,
                      Readers::Private);
}

}  // namespace

std::string write_repro(const Subject& subject, const std::string& about, const std::string& folder) {
  const Scope scope;
  const std::vector<reference::Array> buffers = contents(subject);
  const std::string stem =
      fmt::format("{}/repro_{}_{:016x}", folder_of(folder), subject.name, hash_string(to_text(subject)));
  Subject whole = subject;
  whole.known.clear();
  whole.given.clear();
  whole.inputs.clear();
  std::int64_t elements = 0;
  for (const reference::Array& buffer : buffers) elements += buffer.size();
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder_of(folder), ignored);
    const bool kept = engine::write_inputs(stem + ".data", {buffers, subject.bindings});
    Subject beside = whole;  // what the file says, which may move together with its data
    if (kept) {
      beside = with_inputs(whole, stem + ".data");
      beside.inputs = std::filesystem::path(beside.inputs).filename().string();
    }
    write_file_atomic(stem + ".txt", to_text(kept ? beside : subject, about), Sync::No, Readers::Private);
    if (elements <= kMostElements) {
      for (std::size_t slot = 0; slot < buffers.size(); ++slot)
        for (std::int64_t i = 0; i < buffers[slot].size(); ++i)
          whole.known.push_back(
              {static_cast<std::int64_t>(slot), i, buffers[slot].at(i).f, buffers[slot].at(i).i});
    } else if (kept) {
      whole = with_inputs(whole, std::filesystem::absolute(stem + ".data").string());
    } else {
      whole = subject;
    }
    write_programs(stem, to_text(whole), about);
  } catch (const DeviceError&) {
    return "";  // the finding matters more than the file
  }
  return stem + ".txt";
}

std::string write_repro(const GraphSubject& subject, const std::string& about, const std::string& folder) {
  const std::string stem =
      fmt::format("{}/repro_graph_{:016x}", folder_of(folder), hash_string(to_text(subject)));
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder_of(folder), ignored);
    write_file_atomic(stem + ".txt", to_text(subject, about), Sync::No, Readers::Private);
    write_programs(stem, to_text(subject), about);
  } catch (const DeviceError&) {
    return "";
  }
  return stem + ".txt";
}

}  // namespace lathe::investigate
