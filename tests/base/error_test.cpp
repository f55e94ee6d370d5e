#include "base/error.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Error, MessageNamesTheOpThenNotesAndHelpsInOrder) {
  const auto error = UserError("matmul", "inner sizes differ: lhs (4, 8) has 8, rhs (16, 8) has 16")
                         .note("lhs made by reshape")
                         .help("rhs.transpose() has shape (8, 16)");
  EXPECT_STREQ(error.what(),
               "lathe: matmul: inner sizes differ: lhs (4, 8) has 8, rhs (16, 8) has 16\n"
               "  note: lhs made by reshape\n"
               "  help: rhs.transpose() has shape (8, 16)");
  EXPECT_EQ(error.op(), "matmul");
  EXPECT_EQ(error.message(), "inner sizes differ: lhs (4, 8) has 8, rhs (16, 8) has 16");
}

TEST(Error, WhatIsQuotedFromAFileIsWrittenSoThatItShows) {
  const std::string hostile("a\0b\x1b[2Jc\r\x7f", 9);
  const auto error = UserError("einsum", hostile + " is not a formula\nlook\there").note(hostile);
  EXPECT_STREQ(error.what(),
               "lathe: einsum: a\\x00b\\x1b[2Jc\\x0d is not a formula\nlook\there\n"
               "  note: a\\x00b\\x1b[2Jc\\x0d");
  EXPECT_EQ(error.message(), "a\\x00b\\x1b[2Jc\\x0d is not a formula\nlook\there");
}

TEST(Error, WithoutAnOpThereIsNoEmptyColon) {
  EXPECT_STREQ(UserError("", "no device").what(), "lathe: no device");
}

TEST(Error, FluentThrowKeepsTheDerivedKind) {
  EXPECT_THROW(throw KernelOptError("UPCAST", "axis 9 of 3").note("n"), KernelOptError);
  EXPECT_THROW(throw JitError("jit", "item() in a capture").help("h"), UserError);
  EXPECT_THROW(throw OutOfMemory("alloc", "needs 4 GiB").note("plan"), DeviceError);
  EXPECT_THROW(throw CompileError("nvrtc", "refused"), Error);
}

TEST(Error, CheckInternalThrowsOnlyWhenFalse) {
  EXPECT_NO_THROW(check_internal(true, "pass", "fine"));
  EXPECT_THROW(check_internal(false, "pass", "broken"), InternalError);
}

}  // namespace
}  // namespace lathe
