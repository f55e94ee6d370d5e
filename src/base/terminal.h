// Capabilities of the terminal: whether standard error is one, its width, colours. All output for people uses
// these, so that logs and pipes get plain text and NO_COLOR is respected everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

enum class Colour : std::uint8_t { Plain, Bold, Dim, Red, Green, Yellow, Blue, Magenta, Cyan };

// Whether standard error goes to a person's terminal.
bool stderr_is_terminal();

// Whether the locale can show characters beyond ASCII.
bool locale_is_utf8();

// Columns of the terminal, or 80 when there is none.
int terminal_width();

// The text in a colour, or as it is when standard error takes no colours.
std::string coloured(Colour colour, std::string_view text);

// The same, deciding about colours by argument instead of by the terminal.
std::string coloured(Colour colour, std::string_view text, bool colours);

}  // namespace lathe
