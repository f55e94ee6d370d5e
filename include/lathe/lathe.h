// Everything a user of the library includes.
#pragma once

#include "lathe/context.h"
#include "lathe/datasets.h"
#include "lathe/device.h"
#include "lathe/dtypes.h"
#include "lathe/error.h"
#include "lathe/index.h"
#include "lathe/jit.h"
#include "lathe/nn.h"
#include "lathe/object.h"
#include "lathe/optim.h"
#include "lathe/schedulers.h"
#include "lathe/state.h"
#include "lathe/tensor.h"
#include "lathe/variable.h"
