// The page at /: a chat in the browser, without anything from elsewhere.
#pragma once

#include <string_view>

namespace lathe::llm::serve {

extern const std::string_view kChatPage;

}  // namespace lathe::llm::serve
