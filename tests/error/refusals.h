// What Lathe refuses, one row each: how a user runs into it. The text of each refusal is pinned in
// refusals.txt beside this file, from which the error page of the documentation is made.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lathe::test {

struct Refusal {
  std::string id;                        // the anchor on the page: matmul-inner
  std::string section;                   // the heading it stands under
  std::string when;                      // a sentence for the page: what was done
  std::function<std::string()> provoke;  // gives the kind and the whole text
};
const std::vector<Refusal>& refusals();

}  // namespace lathe::test
