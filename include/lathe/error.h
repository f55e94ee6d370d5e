// The kinds of failure Lathe reports, and the one form their messages take:
//   lathe: <op>: <what was found against what was needed>
//     note: <where each came from>
//     help: <a way out>
// A caller can fix a UserError; a CompileError is a vendor compiler refusing our text; a DeviceError is a
// driver's refusal; an InternalError is our bug. "Did not match" is not an error: that is std::optional.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

// The base of all of them: catch this to catch whatever Lathe throws.
class Error : public std::runtime_error {
 public:
  Error(std::string_view op, std::string_view message);

  const char* what() const noexcept override { return text_.c_str(); }

  // The operation that refused ("matmul") and the first line without its prefix.
  const std::string& op() const { return op_; }
  const std::string& message() const { return message_; }

 protected:
  void add_line(std::string_view label, std::string_view text);

 private:
  std::string op_, message_, text_;
};

// Gives each kind note() and help() that return the kind itself, so that
//   throw UserError("matmul", "inner sizes differ").note("lhs made here").help("transpose it");
// throws a UserError and not a sliced base.
template <class Self, class Base = Error>
class ErrorKind : public Base {
 public:
  using Base::Base;

  // Says where something came from. Each call adds a line.
  Self&& note(std::string_view text) && { return std::move(add("note", text)); }
  Self& note(std::string_view text) & { return add("note", text); }

  // Says what to do about it. Each call adds a line.
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

// Something a captured function may not do, or a replay that does not fit its capture.
struct JitError : ErrorKind<JitError, UserError> {
  using ErrorKind::ErrorKind;
};

// An index that a kernel found to be outside its axis when it ran: gather, embedding, getitem and their kin.
// Raised by the next call that waits for devices or reads data; what was computed meanwhile is worthless.
struct IndexError : ErrorKind<IndexError, UserError> {
  using ErrorKind::ErrorKind;
};

// A file or folder that is not there. In Python also a FileNotFoundError.
struct MissingFile : ErrorKind<MissingFile, UserError> {
  using ErrorKind::ErrorKind;
};

// Something that makes sense and is not supported. In Python also a NotImplementedError.
struct NotSupported : ErrorKind<NotSupported, UserError> {
  using ErrorKind::ErrorKind;
};

// A vendor compiler refused generated text; a note names the saved source.
struct CompileError : ErrorKind<CompileError> {
  using ErrorKind::ErrorKind;
};

// A driver or an operating system call failed; the message has its code in words.
struct DeviceError : ErrorKind<DeviceError> {
  using ErrorKind::ErrorKind;
};

// The memory plan does not fit; notes carry the plan.
struct OutOfMemory : ErrorKind<OutOfMemory, DeviceError> {
  using ErrorKind::ErrorKind;
};

// Lathe broke its own rules; notes name the pass and the rule, help the command that repeats it.
struct InternalError : ErrorKind<InternalError> {
  using ErrorKind::ErrorKind;
};

}  // namespace lathe
