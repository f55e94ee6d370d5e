// PIPELINE on targets with groups: panels that a loop fills become rings of slots, so that the copies of
// later steps run during the current one. It works on programs, because there the copies of a step are a part
// of the list that can be repeated for another step.
//
//   before   k: { Barrier, panel = A[k], Barrier, work on panel }                            3 slots
//   after    s < 2: { ring[s] = A[s] }
//            k: { wait for this thread's copies but the last 2 - 1 steps', Barrier,
//                 ring[(k + 2)%3] = A[k + 2] where there is such a step, work on ring[k%3] }
//
// The barrier ensures both that all threads' copies of step k have arrived and that no thread still uses step
// k - 1, whose slot is filled next. Anything but a plain copy of 4, 8 or 16 bytes is loaded and stored.
//
// If a unit reads the panels itself, its products of step k - 1 may still run when those of step k begin: it
// never waits for the threads. With three slots or more, copies are then started one step less ahead.
//
// With roles (Filling::Roles) four warps more start the bulk copies of all steps, and no barrier of the group
// is left in the loop: a slot is filled when every warp of the others has said that it is done with it.
//
//   producers  k: { one thread: wait until ring[k%3] is free, ring[k%3] = A[k] }
//   others     k: { wait until ring[k%3] has arrived, work on it, one thread of each warp: ring[k%3] is free
//   }
#pragma once

#include "ir/program.h"

namespace lathe {

// Panels say how many slots they are to have (SharedForm); those whose loop is not of that form get one.
Program pipeline_copies(Program program);

}  // namespace lathe
