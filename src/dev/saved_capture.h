// A captured program that was saved (Jit::save), as a subject of an investigation: `lathe-worker replay FILE`
// is a command that fails where its replays differ from what REF computes of its kernels.
#pragma once

#include <string>

namespace lathe::dev {

bool is_capture_file(const std::string& path);

// Replays it on made-up arguments, and again with every kernel computed by REF: what differs, or nothing.
std::string differs_from_reference(const std::string& capture_file);

// The command: its exit status.
int replay_main(const std::string& capture_file);

}  // namespace lathe::dev
