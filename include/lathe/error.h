// The errors Lathe throws. All messages have one form:
//   lathe: <op>: <what was found against what was needed>
//     note: <where each came from>
//     help: <how to fix it>
// A UserError can be fixed by the caller. A CompileError means that a vendor compiler rejected generated
// code, a DeviceError that a driver call failed, an InternalError that Lathe has a bug.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

// The base class: catch this to catch every error Lathe throws.
class Error : public std::runtime_error {
 public:
  Error(std::string_view op, std::string_view message);

  const char* what() const noexcept override { return text_.c_str(); }

  // The operation that failed ("matmul"), and the first line of the message without its prefix.
  const std::string& op() const { return op_; }
  const std::string& message() const { return message_; }

 protected:
  void add_line(std::string_view label, std::string_view text);

 private:
  std::string op_, message_, text_;
};

// Adds note() and help() that return the derived type, so that
//   throw UserError("matmul", "inner sizes differ").note("lhs made here").help("transpose it");
// throws a UserError and not a sliced base.
template <class Self, class Base = Error>
class ErrorKind : public Base {
 public:
  using Base::Base;

  // Adds a line that says where something came from.
  Self&& note(std::string_view text) && { return std::move(add("note", text)); }
  Self& note(std::string_view text) & { return add("note", text); }

  // Adds a line that says how to fix it.
  Self&& help(std::string_view text) && { return std::move(add("help", text)); }
  Self& help(std::string_view text) & { return add("help", text); }

 private:
  Self& add(std::string_view label, std::string_view text) {
    this->add_line(label, text);
    return static_cast<Self&>(*this);
  }
};

// The caller asked for something impossible and can fix it.
struct UserError : ErrorKind<UserError> {
  using ErrorKind::ErrorKind;
};

// A dtype that the operation is not defined for.
struct TypeError : ErrorKind<TypeError, UserError> {
  using ErrorKind::ErrorKind;
};

// A kernel option that does not fit the kernel it was applied to.
struct KernelOptError : ErrorKind<KernelOptError, UserError> {
  using ErrorKind::ErrorKind;
};

// A captured function did something it may not do, or a replay does not fit its capture.
struct JitError : ErrorKind<JitError, UserError> {
  using ErrorKind::ErrorKind;
};

// A kernel (of gather, embedding, getitem and the like) found an index outside its axis. Thrown by the next
// call that waits for devices or reads data; results computed in between are invalid.
struct IndexError : ErrorKind<IndexError, UserError> {
  using ErrorKind::ErrorKind;
};

// A file or folder does not exist. In Python also a FileNotFoundError.
struct MissingFile : ErrorKind<MissingFile, UserError> {
  using ErrorKind::ErrorKind;
};

// A meaningful request that is not supported. In Python also a NotImplementedError.
struct NotSupported : ErrorKind<NotSupported, UserError> {
  using ErrorKind::ErrorKind;
};

// A vendor compiler rejected generated code; a note names the saved source.
struct CompileError : ErrorKind<CompileError> {
  using ErrorKind::ErrorKind;
};

// A driver or operating system call failed; the message has its error code in words.
struct DeviceError : ErrorKind<DeviceError> {
  using ErrorKind::ErrorKind;
};

// The memory plan does not fit the device; notes list the plan.
struct OutOfMemory : ErrorKind<OutOfMemory, DeviceError> {
  using ErrorKind::ErrorKind;
};

// A bug in Lathe; notes name the pass and the rule, help has the command that repeats it.
struct InternalError : ErrorKind<InternalError> {
  using ErrorKind::ErrorKind;
};

}  // namespace lathe
