#include "apps/investigations/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "lathe/error.h"

namespace lathe::investigations {
namespace {

[[noreturn]] void refuse(sqlite3* database, const std::string& doing) {
  const char* file = database == nullptr ? nullptr : sqlite3_db_filename(database, "main");
  throw DeviceError("investigate", fmt::format("{}: {}: {}", file == nullptr ? "the store" : file, doing,
                                               database == nullptr ? "no memory" : sqlite3_errmsg(database)))
      .help("--store names another folder");
}

constexpr int kPatienceMilliseconds = 30000;  // until a file that another process writes is given up

}  // namespace

Statement::Statement(sqlite3* database, const std::string& sql) : database_(database) {
  if (sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()), &statement_, nullptr) !=
      SQLITE_OK)
    refuse(database, sql);
}
Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::bind(int index, std::string_view value) {
  if (sqlite3_bind_text(statement_, index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT) !=
      SQLITE_OK)
    refuse(database_, "binding a text");
}
void Statement::bind(int index, double value) {
  if (sqlite3_bind_double(statement_, index, value) != SQLITE_OK) refuse(database_, "binding a number");
}
void Statement::bind(int index, std::int64_t value) {
  if (sqlite3_bind_int64(statement_, index, value) != SQLITE_OK) refuse(database_, "binding a number");
}

bool Statement::next() {
  const int status = sqlite3_step(statement_);
  if (status != SQLITE_ROW && status != SQLITE_DONE) refuse(database_, sqlite3_sql(statement_));
  return status == SQLITE_ROW;
}
void Statement::run() {
  while (next()) continue;
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes == nullptr
             ? ""
             : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

Database::Database(const std::string& path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database_, flags, nullptr) != SQLITE_OK) {
    const std::string why = database_ == nullptr ? "no memory" : sqlite3_errmsg(database_);
    sqlite3_close(database_);
    throw DeviceError("investigate", fmt::format("{}: {}", path, why)).help("--store names another folder");
  }
  try {
    sqlite3_busy_timeout(database_, kPatienceMilliseconds);
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = FULL");
    run("PRAGMA foreign_keys = ON");
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}
Database::~Database() { sqlite3_close(database_); }

void Database::run(const std::string& sql) {
  if (sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) refuse(database_, sql);
}

void Database::together(const std::function<void()>& changes) {
  run("BEGIN IMMEDIATE");
  try {
    changes();
  } catch (...) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
  run("COMMIT");
}

std::int64_t Database::changed() const { return sqlite3_changes(database_); }

}  // namespace lathe::investigations
