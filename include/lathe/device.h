// Which device tensors live on. A device is named by text, NAME or NAME:index; "CPU", "cpu" and "CPU:0" are
// one device.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// The device of tensors that name none: the one set here, else LATHE_DEVICE, else CPU.
std::string default_device();
void set_default_device(std::string_view device);

// The one spelling of a device's name: upper case, index 0 left out. Throws UserError for an unknown device.
std::string canonical_device(std::string_view device);

// Waits until everything submitted on all devices is done.
void synchronize();

}  // namespace lathe
