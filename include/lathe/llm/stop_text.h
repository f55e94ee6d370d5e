// Text on its way to a reader that must never see a stop sequence, nor a part of one: what could still become
// one is held back until the next piece decides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::llm {

class StopText {
 public:
  // Throws UserError where a stop sequence is empty.
  explicit StopText(std::vector<std::string> stops);

  // Gives what is certain: text up to a stop sequence, which ends everything, or up to what may be the
  // beginning of one.
  std::string push(std::string_view text);
  // What was held back, when nothing follows.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& which() const { return which_; }  // the sequence that ended it

 private:
  std::vector<std::string> stops_;
  std::string held_, which_;
  bool stopped_ = false;
};

}  // namespace lathe::llm
