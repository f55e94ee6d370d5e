// One static HTML file per investigation: the verdict, the hypotheses, what the guilty step changed side by
// side, how far values are off as a heat map, the history of states. It needs nothing from anywhere else.
#pragma once

#include <string>

#include "apps/investigations/store.h"

namespace lathe::investigations {

std::string page_of(Store& store, const std::string& id);
// Writes page.html into the session's folder; its path.
std::string write_page(Store& store, const std::string& id);

}  // namespace lathe::investigations
