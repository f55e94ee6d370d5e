// `lathe-worker`: compiles, runs and times the candidates of a search in a process of its own. Started by the
// search, which speaks with it over its standard input and output; of no use by hand.
#include "lathe/dev/search.h"

int main() { return lathe::dev::run_search_worker(); }
