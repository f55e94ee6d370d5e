// The verifier: graphs that are well formed pass, and each kind of planted fault is found and named.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace lathe {
namespace {

std::string texts(const std::vector<VerifyFault>& faults) {
  std::string out;
  for (const VerifyFault& f : faults) out += f.text + (f.node ? "   in " + print_node(f.node) : "") + "\n";
  return out;
}

struct Row {
  const char* what;     // for the reader
  const char* text;     // lines of the text form
  const char* message;  // part of a fault; empty: well formed
};

void check_rows(std::span<const Row> rows, std::vector<VerifyFault> (*verify)(Node)) {
  for (const Row& row : rows) {
    Scope scope;
    std::vector<VerifyFault> faults = verify(parse_graph(row.text));
    if (std::string(row.message).empty())
      EXPECT_TRUE(faults.empty()) << row.what << "\n" << texts(faults);
    else
      EXPECT_NE(texts(faults).find(row.message), std::string::npos)
          << row.what << "\nwanted: " << row.message << "\nfound:\n"
          << texts(faults);
  }
}

// clang-format off
#define KERNEL_HEAD                        \
  "%n = Const.idx 16 ()\n"                 \
  "%i = Range.idx [0, global] (%n)\n"      \
  "%k = Range.idx [1, reduce] (%n)\n"      \
  "%in = Param.f32 [1, 16] ()\n"           \
  "%out = Param.f32 [0, 16] ()\n"          \
  "%zero = Const.idx 0 ()\n"               \
  "%yes = Less.b1 (%i, %n)\n"              \
  "%x = Load.f32 (%in, %i)\n"
#define STORE(value) "%s = Store.void (%out, %i, " value ")\n%e = End.void (%s, %i)\n%root = Sink.void (%e)\n"

constexpr Row kKernels[] = {
    {"a copy", KERNEL_HEAD STORE("%x"), ""},
    {"a gated reduce", KERNEL_HEAD "%y = Load.f32 (%in, %k, %yes)\n%r = Reduce.f32 Add (%y, %k)\n" STORE("%r"), ""},
    {"mixed dtypes", KERNEL_HEAD "%h = Cast.f16 (%x)\n%y = Add.f32 (%x, %h)\n" STORE("%y"), "Add has operands of f32 and f16"},
    {"a wrong result dtype", KERNEL_HEAD "%y = Less.f32 (%x, %x)\n" STORE("%y"), "Less of f32 gives b1, not f32"},
    {"an op outside its domain", KERNEL_HEAD "%y = Xor.f32 (%x, %x)\n" STORE("%y"), "Xor is not defined on f32"},
    {"a condition that is not a bool", KERNEL_HEAD "%y = Where.f32 (%x, %x, %x)\n" STORE("%y"), "the condition of Where is f32"},
    {"a gate that is not a bool", KERNEL_HEAD "%y = Load.f32 (%in, %i, %i)\n" STORE("%y"), "the gate of Load is idx"},
    {"an index of a foreign dtype", KERNEL_HEAD "%j = Cast.i32 (%i)\n%y = Load.f32 (%in, %j)\n" STORE("%y"), "the index of Load is i32"},
    {"a float in an index", KERNEL_HEAD "%j = Cast.idx (%x)\n%y = Load.f32 (%in, %j)\n" STORE("%y"), "f32 in an index"},
    {"a subtraction in an index", KERNEL_HEAD "%j = Sub.idx (%n, %i)\n%y = Load.f32 (%in, %j)\n" STORE("%y"), "Sub is in an index expression"},
    {"a load of what is not memory", KERNEL_HEAD "%y = Load.f32 (%x, %i)\n" STORE("%y"), "which is not memory"},
    {"a load of another dtype", KERNEL_HEAD "%y = Load.f16 (%in, %i)\n%z = Cast.f32 (%y)\n" STORE("%z"), "Load moves f16 and the memory holds f32"},
    {"a store of another dtype", KERNEL_HEAD "%y = Cast.f16 (%x)\n" STORE("%y"), "Store moves f16 and the memory holds f32"},
    {"a constant outside its dtype", KERNEL_HEAD "%c = Const.u8 300 ()\n%y = Cast.f32 (%c)\n" STORE("%y"), "300 is not a value of u8"},
    {"a constant not rounded", KERNEL_HEAD "%c = Const.f16 0x1.00001p+0 ()\n%y = Cast.f32 (%c)\n" STORE("%y"), "is not a value of f16"},
    {"a range left open", KERNEL_HEAD "%s = Store.void (%out, %i, %x)\n%root = Sink.void (%s)\n", "range 0 is not closed on the way to the Sink"},
    {"a reduce range left open", KERNEL_HEAD "%y = Load.f32 (%in, %k)\n" STORE("%y"), "range 1 is not closed on the way to the Sink"},
    {"a range closed twice", KERNEL_HEAD "%s = Store.void (%out, %i, %x)\n%e = End.void (%s, %i)\n%f = End.void (%e, %i)\n%root = Sink.void (%f)\n", "range 0 is closed twice"},
    {"a range named twice", KERNEL_HEAD "%s = Store.void (%out, %i, %x)\n%e = End.void (%s, %i, %i)\n%root = Sink.void (%e)\n", "End closes range 0 twice"},
    {"a reduce over outputs", KERNEL_HEAD "%r = Reduce.f32 Add (%x, %i)\n" STORE("%r"), "Reduce closes range 0, which is global"},
    {"a reduce over no range", KERNEL_HEAD "%r = Reduce.f32 Add (%x)\n" STORE("%r"), "a Reduce over no range"},
    {"a reduce that closes no range", KERNEL_HEAD "%r = Reduce.f32 Add (%x, %n)\n" STORE("%r"), "Reduce closes Const, which is not a range"},
    {"a ragged extent from inside", KERNEL_HEAD "%j = Range.idx [0, reduce] (%k)\n%y = Load.f32 (%in, %j)\n%r = Reduce.f32 Add (%y, %j, %k)\n" STORE("%r"), "depends on range 1, which is not outside it"},
    {"two ranges of one id", KERNEL_HEAD "%m = Const.idx 8 ()\n%j = Range.idx [1, reduce] (%m)\n%y = Load.f32 (%in, %j)\n%z = Load.f32 (%in, %k)\n%w = Mul.f32 (%y, %z)\n%r = Reduce.f32 Add (%w, %j, %k)\n" STORE("%r"), "two nodes are range 1"},
    {"two params of one slot", KERNEL_HEAD "%q = Param.f32 [1, 8] ()\n%y = Load.f32 (%q, %i)\n%z = Add.f32 (%x, %y)\n" STORE("%z"), "two nodes are param 1"},
    {"a define read before it is written", KERNEL_HEAD "%d = Define.f32 [0, 16, register] ()\n%y = Load.f32 (%d, %i)\n" STORE("%y"), "define 0 is read with no write before it"},
    {"a param read at another index", KERNEL_HEAD "%one = Const.idx 1 ()\n%j = Add.idx (%i, %one)\n%y = Load.f32 (%out, %j)\n" STORE("%y"), "param 0 is written, and read at another index"},
    {"a param read where it is written", KERNEL_HEAD "%y = Load.f32 (%out, %i)\n" STORE("%y"), ""},
    {"an end of a value", KERNEL_HEAD "%e = End.void (%x, %i)\n%root = Sink.void (%e)\n", "End of Load, which is not an effect"},
    {"a sink of a value", KERNEL_HEAD "%root = Sink.void (%x)\n", "Sink of Load, which is not an effect"},
    {"a tensor op", KERNEL_HEAD "%y = Contiguous.f32 (%x)\n" STORE("%y"), "Contiguous is not allowed in a kernel"},
    {"a program op", KERNEL_HEAD "%t = Special.idx \"g0\" [16] ()\n%y = Load.f32 (%in, %t)\n" STORE("%y"), "Special is not allowed in a kernel"},
    {"lanes that differ", KERNEL_HEAD "%v = Splat.f32x4 (%x)\n%y = Lane.f32 7 (%v)\n" STORE("%y"), "lane 7 of f32x4"},
    {"a vector from too few lanes", KERNEL_HEAD "%v = Vec.f32x4 (%x, %x)\n%y = HReduce.f32 Add (%v)\n" STORE("%y"), "Vec of f32x4 from 2 lanes"},
    {"a bitcast between widths", KERNEL_HEAD "%h = Bitcast.u16 (%x)\n%y = Cast.f32 (%h)\n" STORE("%y"), "Bitcast from f32 to u16: widths differ"},
    {"a running value outside its fold", KERNEL_HEAD "%c = Carry.f32 [3, 0, 0] ()\n%y = Add.f32 (%x, %c)\n" STORE("%y"), "a running value of fold 3 is read outside it"},
    {"a fold", KERNEL_HEAD "%c = Carry.f32 [3, 0, 0] ()\n%z = Const.f32 0 ()\n%a = Load.f32 (%in, %k)\n%y = Add.f32 (%a, %c)\n%f = Fold.void [3, 1, 0] (%z, %y, %k)\n%g = Get.f32 0 (%f)\n" STORE("%g"), ""},
    {"a fold that changes its dtype", KERNEL_HEAD "%z = Const.f16 0 ()\n%a = Load.f32 (%in, %k)\n%f = Fold.void [3, 1, 0] (%z, %a, %k)\n%g = Get.f16 0 (%f)\n%y = Cast.f32 (%g)\n" STORE("%y"), "component 0 of a Fold starts as f16 and becomes f32"},
    {"a running value where the fold starts", KERNEL_HEAD "%c = Carry.f32 [3, 0, 0] ()\n%a = Load.f32 (%in, %k)\n%f = Fold.void [3, 1, 0] (%c, %a, %k)\n%g = Get.f32 0 (%f)\n" STORE("%g"), "is used in its initial value"},
    {"a component that is not there", KERNEL_HEAD "%z = Const.f32 0 ()\n%a = Load.f32 (%in, %k)\n%f = Fold.void [3, 1, 0] (%z, %a, %k)\n%g = Get.f32 2 (%f)\n" STORE("%g"), "Get 2 of a Fold of 1 components"},
};
// clang-format on

TEST(Verify, EachFaultOfAKernelIsFound) {
  check_rows(kKernels, [](Node n) { return verify_kernel(n); });
}

// clang-format off
#define TENSOR_HEAD                              \
  "%two = Const.idx 2 ()\n"                      \
  "%three = Const.idx 3 ()\n"                    \
  "%one = Const.idx 1 ()\n"                      \
  "%zero = Const.idx 0 ()\n"                     \
  "%b = Buffer.f32 \"CPU\" [1, 6] ()\n"          \
  "%x = Reshape.f32 (%b, %two, %three)\n"

constexpr Row kTensors[] = {
    {"a sum", TENSOR_HEAD "%r = Reduce.f32 [Add, 1] (%x)\n%e = Expand.f32 (%r, %two, %three)\n%y = Add.f32 (%x, %e)\n", ""},
    {"a constant beside a shape", TENSOR_HEAD "%c = Const.f32 2 ()\n%y = Mul.f32 (%x, %c)\n", ""},
    {"shapes that differ", TENSOR_HEAD "%p = Permute.f32 [1, 0] (%x)\n%y = Add.f32 (%x, %p)\n", "Add of shapes (2, 3) and (3, 2)"},
    {"a reshape that changes the count", TENSOR_HEAD "%y = Reshape.f32 (%b, %two, %two)\n", "6 elements become 4"},
    {"an expand of a full axis", TENSOR_HEAD "%y = Expand.f32 (%x, %three, %three)\n", "Expand from (2, 3) to (3, 3): axis 0 is not 1"},
    {"a shrink outside", TENSOR_HEAD "%y = Shrink.f32 (%x, %zero, %zero, %three, %three)\n", "Shrink to [0, 3) of an axis of 2"},
    {"a negative pad", TENSOR_HEAD "%m = Const.idx -1 ()\n%y = Pad.f32 (%x, %m, %zero, %zero, %zero)\n", "Pad by a negative size"},
    {"a skew that reads outside", TENSOR_HEAD "%y = Skew.f32 [1, 0, 2, 1] (%x, %three)\n", "Skew reads position 5 of an axis of 3"},
    {"a size that is not an index", TENSOR_HEAD "%s = Const.i32 6 ()\n%y = Reshape.f32 (%x, %s)\n", "Reshape takes a size of i32"},
    {"a reduce of the kernel form", TENSOR_HEAD "%y = Reduce.f32 Add (%x)\n", "a Reduce of another form of the IR"},
    {"a store to a value", TENSOR_HEAD "%v = Add.f32 (%x, %x)\n%y = Store.void (%v, %x)\n", "not a view of a buffer"},
    {"a store of another shape", TENSOR_HEAD "%y = Store.void (%b, %x)\n", "a Store of (2, 3) to a view of (6,)"},
    {"a version", TENSOR_HEAD "%s = Store.void (%x, %x)\n%y = After.f32 (%b, %s)\n", ""},
    {"a version of another buffer", TENSOR_HEAD "%c = Buffer.f32 \"CPU\" [2, 6] ()\n%s = Store.void (%x, %x)\n%y = After.f32 (%c, %s)\n", "After of one buffer waits for a Store to another"},
    {"a range", TENSOR_HEAD "%y = Range.idx [0, global] (%two)\n", "Range is not allowed in a tensor graph"},
    {"a sort", TENSOR_HEAD "%i = Cast.i32 (%x)\n%y = Sort.i32 2 (%i)\n", ""},
    {"a sort that keeps more than there are", TENSOR_HEAD "%i = Cast.i32 (%x)\n%y = Sort.i32 4 (%i)\n", "Sort keeps 4 of 3"},
    {"a sort of floats", TENSOR_HEAD "%y = Sort.i32 2 (%x)\n", "operand 0 of Sort is f32, not integers"},
    {"a sort that gives keys", TENSOR_HEAD "%i = Cast.i64 (%x)\n%y = Sort.i64 2 (%i)\n", "Sort gives i64"},
    {"a sort of what bounds do not tell apart", TENSOR_HEAD "%i = Cast.u64 (%x)\n%y = Sort.i32 2 (%i)\n", "Sort of u64"},
    {"a running sum of another dtype", TENSOR_HEAD "%y = Scan.f64 [Add, 1] (%x)\n", "Scan of f32 gives f64"},
    {"a sink with a value", TENSOR_HEAD "%y = Sink.f32 (%x)\n", "Sink has the dtype void"},
    {"a variable bound outside its range", TENSOR_HEAD "%v = Var.idx \"n\" [1, 2] ()\n%y = Bind.idx (%v, %three)\n", "3 is outside [1, 2] of n"},
};
// clang-format on

TEST(Verify, EachFaultOfATensorGraphIsFound) {
  check_rows(kTensors, [](Node n) { return verify_tensor({&n, 1}); });
}

// clang-format off
#define PROGRAM_HEAD                            \
  "program \"p\"\n"                             \
  "param 0 f32 16 -w\n"                         \
  "param 1 f32 16 r-\n"                         \
  "groups 1 1 1\nlocals 1 1 1\nthreads 1\n"     \
  "counts 64 0 0\n"                             \
  "let %n = Const.i32 16 ()\n"                  \
  "let %in = Param.f32 [1, 16] ()\n"            \
  "let %out = Param.f32 [0, 16] ()\n"           \
  "let %t = Special.i32 \"l0\" [16] ()\n"

// Memory of the program's own, and a loop that writes every `step`th of its elements, `count` of them.
#define OWN(size)                                    \
  "let %d = Define.f32 [0, " #size ", register] ()\n" \
  "let %zero = Const.i32 0 ()\n"                     \
  "let %one = Const.f32 1 ()\n"                      \
  "let %t8 = Special.i32 \"l1\" [8] ()\n"
#define FILL(step, count)                       \
  "let %step = Const.i32 " step " ()\n"         \
  "let %count = Const.i32 " count " ()\n"       \
  "%i = Range.i32 [0, loop] (%count)\n"         \
  "%j = Mul.i32 (%i, %step)\n"                  \
  "%w = Store.void (%d, %j, %one)\n"            \
  "%e = End.void (%i)\n"                        \
  "let %a = After.f32 (%d, %w)\n"

constexpr Row kPrograms[] = {
    {"a copy", PROGRAM_HEAD "%i = Range.i32 [0, loop] (%n)\n%x = Load.f32 (%in, %i)\n%s = Store.void (%out, %i, %x)\n%e = End.void (%i)\n", ""},
    {"an operand that is not listed", PROGRAM_HEAD "%i = Range.i32 [0, loop] (%n)\nlet %x = Load.f32 (%in, %i)\n%s = Store.void (%out, %i, %x)\n%e = End.void (%i)\n", "its operand Load is not listed before it"},
    {"an operand of a closed scope", PROGRAM_HEAD "%i = Range.i32 [0, loop] (%n)\n%x = Load.f32 (%in, %i)\n%e = End.void (%i)\n%s = Store.void (%out, %t, %x)\n", "its operand Load is in a scope that is closed"},
    {"a node listed twice", PROGRAM_HEAD "%x = Load.f32 (%in, %t)\nrun %x\n%s = Store.void (%out, %t, %x)\n", "listed twice"},
    {"a loop never closed", PROGRAM_HEAD "%i = Range.i32 [0, loop] (%n)\n%x = Load.f32 (%in, %i)\n%s = Store.void (%out, %i, %x)\n", "this scope is never closed"},
    {"loops closed in the wrong order", PROGRAM_HEAD "%i = Range.i32 [0, loop] (%n)\n%j = Range.i32 [1, loop] (%n)\n%e = End.void (%i)\n%f = End.void (%j)\n", "not the innermost open one"},
    {"an index dtype", PROGRAM_HEAD "let %m = Const.idx 16 ()\n%i = Range.idx [0, loop] (%m)\n%x = Load.f32 (%in, %i)\n%s = Store.void (%out, %i, %x)\n%e = End.void (%i)\n", "the dtype Index in a program"},
    {"a floor division", PROGRAM_HEAD "%h = FloorDiv.i32 (%t, %n)\n%x = Load.f32 (%in, %h)\n%s = Store.void (%out, %t, %x)\n", "FloorDiv in a program"},
    {"a reduce", PROGRAM_HEAD "%i = Range.i32 [0, reduce] (%n)\n%x = Load.f32 (%in, %i)\n%r = Reduce.f32 Add (%x, %i)\n%e = End.void (%i)\n", "Reduce is not allowed in a program"},
    {"an unknown param", PROGRAM_HEAD "let %q = Param.f32 [2, 16] ()\n%x = Load.f32 (%q, %t)\n%s = Store.void (%out, %t, %x)\n", "param 2 is not an argument of the program"},
    {"a param of another size", PROGRAM_HEAD "let %q = Param.f32 [1, 8] ()\n%x = Load.f32 (%q, %t)\n%s = Store.void (%out, %t, %x)\n", "param 1 differs from the program's argument"},
    {"an unknown variable", PROGRAM_HEAD "let %v = Var.i32 \"n\" [1, 8] ()\n%x = Load.f32 (%in, %v)\n%s = Store.void (%out, %t, %x)\n", "the variable n is not an argument of the program"},
    {"a write to what is only read", PROGRAM_HEAD "%x = Load.f32 (%in, %t)\n%s = Store.void (%in, %t, %x)\n", "param 1 is written, which its argument does not say"},
    {"a condition that is not a bool", PROGRAM_HEAD "%if = If.void (%t)\n%e = EndIf.void (%if)\n", "the condition of If is i32"},
    {"a barrier some threads miss", PROGRAM_HEAD "%x = Load.f32 (%in, %t)\n%s = Store.void (%out, %t, %x)\n%c = Less.b1 (%t, %n)\n%if = If.void (%c)\n%b = Barrier.void (%s)\n%e = EndIf.void (%if)\n", "a barrier inside a divergent If"},
    {"a barrier in a loop of each thread's own length", PROGRAM_HEAD "%x = Load.f32 (%in, %t)\n%s = Store.void (%out, %t, %x)\n%i = Range.i32 [0, loop] (%t)\n%b = Barrier.void (%s)\n%e = End.void (%i)\n", "a barrier inside a divergent Range"},
    {"a barrier in a loop all take alike", PROGRAM_HEAD "%x = Load.f32 (%in, %t)\n%s = Store.void (%out, %t, %x)\n%i = Range.i32 [0, loop] (%n)\n%b = Barrier.void (%s)\n%e = End.void (%i)\n", ""},
    {"a wait for an effect that is not listed", PROGRAM_HEAD "let %d = Define.f32 [0, 1, register] ()\nlet %z = Const.i32 0 ()\nlet %v = Const.f32 0 ()\nlet %w = Store.void (%d, %z, %v)\nlet %a = After.f32 (%d, %w)\n%x = Load.f32 (%a, %z)\n%s = Store.void (%out, %t, %x)\n", "waits for Store, which is not listed before it"},
    {"a register that is never set", PROGRAM_HEAD OWN(1) "%x = Load.f32 (%d, %zero)\n%s = Store.void (%out, %t, %x)\n", "define 0 is read with no write before it"},
    {"a register that is set", PROGRAM_HEAD OWN(1) "%w = Store.void (%d, %zero, %one)\nlet %a = After.f32 (%d, %w)\n%x = Load.f32 (%a, %zero)\n%s = Store.void (%out, %t, %x)\n", ""},
    {"a sum that starts nowhere", PROGRAM_HEAD OWN(1) "%i = Range.i32 [0, loop] (%n)\nlet %a = After.f32 (%d, %i)\n%x = Load.f32 (%a, %zero)\n%y = Add.f32 (%x, %one)\n%w = Store.void (%a, %zero, %y)\n%e = End.void (%i)\n", "define 0 is read with no write before it"},
    {"a panel filled by strides", PROGRAM_HEAD OWN(8) FILL("2", "4") "%x = Load.f32 (%a, %t8)\n%s = Store.void (%out, %t8, %x)\n", "define 0 is read at element 1 with no write before it"},
    {"a panel filled whole", PROGRAM_HEAD OWN(8) FILL("1", "8") "%x = Load.f32 (%a, %t8)\n%s = Store.void (%out, %t8, %x)\n", ""},
    {"a panel read beyond what fills it", PROGRAM_HEAD OWN(8) FILL("1", "7") "%x = Load.f32 (%a, %t8)\n%s = Store.void (%out, %t8, %x)\n", "define 0 is read at element 7 with no write before it"},
    {"a vector read beyond what fills it", PROGRAM_HEAD OWN(8) FILL("1", "3") "%x = Load.f32x4 (%a, %zero)\n%y = Lane.f32 3 (%x)\n%s = Store.void (%out, %zero, %y)\n", "define 0 is read at element 3 with no write before it"},
    {"a read that its gate may forbid", PROGRAM_HEAD OWN(8) FILL("1", "3") "%c = Less.b1 (%t8, %n)\n%x = Load.f32 (%a, %t8, %c)\n%s = Store.void (%out, %t8, %x)\n", ""},
    {"too little shared memory", PROGRAM_HEAD "let %d = Define.f32 [0, 17, shared] ()\n%x = Load.f32 (%in, %t)\n%s = Store.void (%d, %t, %x)\n", "shared memory takes 80 bytes, the program says 64"},
};
// clang-format on

TEST(Verify, EachFaultOfAProgramIsFound) {
  for (const Row& row : kPrograms) {
    Scope scope;
    std::vector<VerifyFault> faults = verify_program(parse_program(row.text));
    if (std::string(row.message).empty())
      EXPECT_TRUE(faults.empty()) << row.what << "\n" << texts(faults);
    else
      EXPECT_NE(texts(faults).find(row.message), std::string::npos)
          << row.what << "\nwanted: " << row.message << "\nfound:\n"
          << texts(faults);
  }
}

TEST(Verify, LoweredKernelsMayHoldMachineIndicesAndLaunchIndices) {
  Scope scope;
  Node kernel = parse_graph(
      "%g = Special.i32 \"g0\" [16] ()\n%in = Param.f32 [1, 16] ()\n%out = Param.f32 [0, 16] ()\n%x = "
      "Load.f32 (%in, %g)\n"
      "%s = Store.void (%out, %g, %x)\n%root = Sink.void (%s)\n");
  EXPECT_TRUE(verify_kernel(kernel, KernelPhase::Lowered).empty())
      << texts(verify_kernel(kernel, KernelPhase::Lowered));
  EXPECT_FALSE(verify_kernel(kernel).empty());
}

TEST(Verify, AnErrorNamesThePassTheRuleAndTheGuiltyNode) {
  Scope scope;
  Node kernel = parse_graph(kKernels[2].text);
  try {
    check_kernel(kernel, "expand", "lane-of-splat");
    FAIL() << "the fault was not found";
  } catch (const InternalError& error) {
    std::string text = error.what();
    for (const char* part :
         {"malformed after pass expand, rule lane-of-splat: Add has operands of f32 and f16",
          "guilty: Add.f32 (Load.f32, Cast.f16)", "%0 = Param.f32 [1, 16] ()"})
      EXPECT_NE(text.find(part), std::string::npos) << "wanted " << part << " in\n" << text;
  }
  EXPECT_NO_THROW(check_kernel(parse_graph(kKernels[0].text), "schedule"));
}

}  // namespace
}  // namespace lathe
