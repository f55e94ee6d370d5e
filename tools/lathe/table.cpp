#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "lathe/dev/terminal.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

bool is_number(const std::string& cell) {
  return cell.empty() || cell == "-" || std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
         (cell.size() > 1 && cell[0] == '-' && std::isdigit(static_cast<unsigned char>(cell[1])) != 0);
}

}  // namespace

void print_table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return;
  const std::size_t columns = rows[0].size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> right(columns, rows.size() > 1);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], rows[r][c].size());
      if (r > 0 && !is_number(rows[r][c])) right[c] = false;
    }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string space(widths[c] - rows[r][c].size(), ' ');
      line += right[c] ? space + rows[r][c] : rows[r][c] + space;
      if (c + 1 < columns) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", r == 0 ? dev::bold(line) : line);
  }
}

std::string folded(const std::string& text, std::size_t indent, const std::string& begin) {
  std::string out, line = begin;
  if (!begin.empty()) line.resize(std::max(indent, begin.size() + 1), ' ');
  bool first = true;  // of its line
  std::istringstream words(text);
  for (std::string word; words >> word; first = false) {
    if (!first && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = std::string(indent, ' ') + word;
    } else {
      line += (first ? "" : " ") + word;
    }
  }
  return out + line;
}

void fold_help(CLI::App& app) {
  constexpr std::size_t kHelpColumn = 30;  // where the parser begins what it says of an option
  const auto fold = [](const std::string& text) {
    std::string lines = folded(text, kHelpColumn, std::string(kHelpColumn - 1, ' ')).substr(kHelpColumn);
    for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; ++at)
      lines.erase(at + 1, kHelpColumn);  // the parser indents
    return lines;
  };
  for (CLI::Option* option : app.get_options()) option->description(fold(option->get_description()));
  for (CLI::App* below : app.get_subcommands([](CLI::App*) { return true; })) {
    fold_help(*below);
    below->description(fold(below->get_description()));
  }
}

CLI::Validator between(long low, long high) {
  auto refusal = [low, high](const std::string& text) -> std::string {
    long value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && low <= value && value <= high) return "";
    return fmt::format("{} is not an integer from {} to {}", text, low, high);
  };
  return CLI::Validator(refusal, fmt::format("{} to {}", low, high));
}

CLI::Validator above_zero() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole && std::isfinite(value) && value > 0 ? "" : text + " is not a number above 0";
      },
      "above 0");
}

CLI::Validator existing_file() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        if (std::filesystem::is_directory(path)) return path + " is a folder, and a file is needed";
        return std::filesystem::exists(path) ? "" : "there is no file " + path;
      },
      "FILE");
}

CLI::Validator existing_path() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        return std::filesystem::exists(path) ? "" : "there is no file or folder " + path;
      },
      "PATH");
}

CLI::Validator existing_folder() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        if (std::filesystem::is_directory(path)) return "";
        return std::filesystem::exists(path) ? path + " is not a folder" : "there is no folder " + path;
      },
      "FOLDER");
}

}  // namespace lathe::tool
