// What two programs have in common that differ only in numbers, such as those of one kernel at two sizes: a
// list of words that is equal for both, and the numbers, in one order. A number is listed only where machine
// code can take it as an argument and compute the same; every other number is part of the words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/program.h"

namespace lathe::engine {

struct FormNumber {
  enum class Place : std::uint8_t {
    Operand,  // a constant that an instruction computes with
    Bound,    // code only relies on it as a bound: the extent of a launch index, the size of a param
    Memory,   // how much memory of its own code needs at least
  };
  std::int64_t bits = 0;  // the number; of a float its bits
  DType dtype;            // of an operand
  Place place = Place::Operand;
  bool operator==(const FormNumber&) const = default;
};

struct ProgramForm {
  std::vector<std::uint64_t> words;
  std::vector<FormNumber> numbers;
};

// Nothing for a program that has variables already or whose numbers are known outside its code as well.
std::optional<ProgramForm> form_of(const Program& program);

// A program with some numbers of a form as arguments.
struct OpenProgram {
  Program program;                    // its variables are the arguments
  std::vector<int> argument;          // by number of the form: which argument it is, or -1
  std::vector<std::int64_t> numbers;  // by number of the form: what it is, or the largest that a bound may be
  std::vector<std::int64_t> low, high;  // what each argument may be
};

// The program with those numbers as arguments in which its form differs from `other`, a form of equal words
// and with `open`, where given, also those that are arguments there. Numbers that are equal in both forms are
// one argument. Nothing where these would be too many.
std::optional<OpenProgram> open_program(const Program& program, const ProgramForm& form,
                                        std::span<const FormNumber> other, const OpenProgram* open = nullptr);

// The arguments with which the open program is the program of this form, whose words are those of its own.
// Nothing where there are none: then it is another program.
std::optional<std::vector<std::int64_t>> arguments_for(const OpenProgram& open,
                                                       std::span<const FormNumber> numbers);

}  // namespace lathe::engine
