// SQLite as two values: a database and a statement that is bound by position and read by column. Errors are
// exceptions that name the file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace lathe::investigations {

class Statement {
 public:
  Statement(sqlite3* database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <class... Values>
  Statement& with(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    return *this;
  }
  bool next();  // to the next row, if there is one
  void run();
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;

 private:
  void bind(int index, std::string_view value);
  void bind(int index, const std::string& value) { bind(index, std::string_view(value)); }
  void bind(int index, const char* value) { bind(index, std::string_view(value)); }
  void bind(int index, double value);
  void bind(int index, std::int64_t value);
  void bind(int index, int value) { bind(index, static_cast<std::int64_t>(value)); }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

// A file that many processes write, any of which may be killed: what was committed is on the disk.
class Database {
 public:
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const std::string& sql);
  template <class... Values>
  void run(const std::string& sql, const Values&... values) {
    Statement(database_, sql).with(values...).run();
  }
  Statement query(const std::string& sql) { return {database_, sql}; }
  // All of it or nothing; no other process writes meanwhile.
  void together(const std::function<void()>& changes);
  std::int64_t changed() const;  // rows by the last statement

 private:
  sqlite3* database_ = nullptr;
};

}  // namespace lathe::investigations
