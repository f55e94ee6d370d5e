// Removes stop sequences from streamed text. Text that could be the beginning of a stop sequence is held back
// until later text decides, so that a reader never sees part of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::llm {

class StopText {
 public:
  // Throws UserError if a stop sequence is empty.
  explicit StopText(std::vector<std::string> stops);

  // Adds text and returns what can be shown: all text before a stop sequence, after which nothing follows, or
  // before a possible beginning of one.
  std::string push(std::string_view text);
  // The text held back at the end of the stream.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& which() const { return which_; }  // the stop sequence that was found

 private:
  std::vector<std::string> stops_;
  std::string held_, which_;
  bool stopped_ = false;
};

}  // namespace lathe::llm
