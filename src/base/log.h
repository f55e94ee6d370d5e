// Log lines on standard error. Each call is one write of complete lines, so that lines of several threads and
// processes do not mix. Results and tables of commands go to standard output and are not logged.
#pragma once

#include <string_view>

namespace lathe {

// Writes the text as it is, adding a newline if there is none.
void log_line(std::string_view text);

// "lathe: <where>: <text>", with the prefix dimmed on a terminal.
void log_note(std::string_view where, std::string_view text);

// "lathe: <where>: warning: <text>"; the same text is written only once per process.
void log_warning_once(std::string_view where, std::string_view text);

}  // namespace lathe
