/* Spawns jobs as its first argument says, and tells what came of it. */
#include "heard.h"
#include "need.h"
#include "say.h"
