// Which device tensors live on. A device is named by text, NAME or NAME:index; "CPU", "cpu" and "CPU:0" are
// one device.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// The device of tensors created without one: the one set here, else LATHE_DEVICE, else CPU.
std::string default_device();
void set_default_device(std::string_view device);

// The canonical name of a device: upper case, without ":0". Throws UserError for an unknown device.
std::string canonical_device(std::string_view device);

// Waits until all work submitted to all devices is done.
void synchronize();

}  // namespace lathe
