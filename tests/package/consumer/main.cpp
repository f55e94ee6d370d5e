// A program of a user of the installed package: public headers only.
#include <cstdio>
#include <cstring>

#include "lathe/error.h"

int main() {
  try {
    throw lathe::UserError("consumer", "installed headers and library fit together").help("nothing to do");
  } catch (const lathe::Error& error) {
    std::puts(error.what());
    return std::strstr(error.what(), "help: nothing to do") ? 0 : 1;
  }
}
