// Shared by the generators of REF's code: registers for constants and variables, slots for memory, and the
// steps of ops with the same meaning in kernels and programs.
#pragma once

#include <span>

#include "ir/walk.h"
#include "reference/code.h"

namespace lathe::reference {

class Emitter {
 public:
  // `registers_hold_memory`: private memory takes registers, so that every thread has its own.
  explicit Emitter(Code& code, bool registers_hold_memory = true)
      : code_(code), registers_hold_memory_(registers_hold_memory) {}

  // The register of a constant, an iota or a variable, or kNoRegister where the node is none of them.
  std::uint32_t leaf(Node node);
  std::uint32_t constant(DType dtype, Element value);
  std::uint32_t index(std::int64_t value);

  // The slot of a Param or Define. `in_group`: memory that the threads of a group share.
  std::uint32_t memory(Node base, bool in_group);

  // The step of a scalar op, cast or vector op over registers of its operands; the result's register is
  // step.dst.
  void value(std::vector<Step>& out, Node node, std::span<const std::uint32_t> args, std::uint32_t dst);

  // A load or store; `gate` may be kNoRegister.
  Step load(Node node, std::uint32_t memory, std::uint32_t index, std::uint32_t gate,
            std::uint32_t dst) const;
  Step store(Node node, std::uint32_t memory, std::uint32_t index, std::uint32_t value,
             std::uint32_t gate) const;

  // Where all elements of an access of several rows lie, or `index` where it is no such access.
  std::uint32_t row_index(std::vector<Step>& out, Node node, DType value, std::uint32_t index);

  // An index into memory of vectors, in scalar elements.
  std::uint32_t scaled_index(std::vector<Step>& out, Node node, std::uint32_t index);

 private:
  Code& code_;
  void machine_op(std::vector<Step>& out, Node node, std::span<const std::uint32_t> args, std::uint32_t dst);

  bool registers_hold_memory_;
  NodeMap<std::uint32_t> leaves_, memories_;
};

// Makes `Scalar` steps; operands the op does not have may be left out.
Step scalar_step(Op op, DType operand, std::uint32_t dst, std::uint32_t a, std::uint32_t b = kNoRegister,
                 std::uint32_t c = kNoRegister, std::uint16_t lanes = 1);
Step copy_step(std::uint32_t dst, std::uint32_t from, std::uint16_t lanes);

}  // namespace lathe::reference
