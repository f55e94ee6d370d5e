// Layers for building nets, and the lists of their parameters. Optimizers are in lathe/optim.h, learning-rate
// schedules in lathe/schedulers.h.
#pragma once

#include "lathe/nn/attention.h"
#include "lathe/nn/layers.h"
#include "lathe/nn/module.h"
#include "lathe/nn/normalization.h"
#include "lathe/nn/recurrent.h"
#include "lathe/nn/sequential.h"
#include "lathe/nn/transformer.h"
